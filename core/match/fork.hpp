// fork() while other threads compute masks: the child gets every vocabulary whole and unlocked.
//
// A lock that another thread holds at a fork would stay locked in the child for ever. So a fork waits until no vocabulary is
// being worked on: one step's work at most. Cost: nothing until a process forks.
#pragma once

#include <shared_mutex>

namespace narrows {

// Held by a vocabulary for as long as it lives.
class ForkGuard {
 public:
  explicit ForkGuard(std::shared_mutex& mutex);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  std::shared_mutex& mutex_;
};

}  // namespace narrows
