// fork() while other threads compute masks: in the child every vocabulary is consistent and unlocked.
//
// A lock that another thread holds at a fork would stay locked in the child for ever. So a fork waits until no thread
// works on a vocabulary: for one step's work at most. Cost: nothing until a process forks.
#pragma once

#include "match/fair_mutex.hpp"

namespace narrows {

// Held by a vocabulary for as long as it lives.
class ForkGuard {
 public:
  explicit ForkGuard(FairMutex& mutex);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  FairMutex& mutex_;
};

}  // namespace narrows
