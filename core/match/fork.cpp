#include "match/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace narrows {
namespace {

struct Guarded {
  std::mutex mutex;
  std::vector<FairMutex*> locks;
};

// Never destroyed: a fork may come while the process ends.
Guarded& guarded() {
  static Guarded& all = *new Guarded;
  return all;
}

// No thread holds two of these locks at once, so their order does not matter.
void before_fork() {
  guarded().mutex.lock();
  for (FairMutex* lock : guarded().locks) lock->lock();
}

void after_fork() {
  for (FairMutex* lock : guarded().locks) lock->unlock();
  guarded().mutex.unlock();
}

// A lock counts the threads that wait for it. These do not exist in the child, so the child gets new locks.
void after_fork_in_child() {
  for (FairMutex* lock : guarded().locks) std::construct_at(lock);
  std::construct_at(&guarded().mutex);
}

}  // namespace

ForkGuard::ForkGuard(FairMutex& mutex) : mutex_(mutex) {
  static const int registered = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  static_cast<void>(registered);
  const std::lock_guard guard(guarded().mutex);
  guarded().locks.push_back(&mutex_);
}

ForkGuard::~ForkGuard() {
  const std::lock_guard guard(guarded().mutex);
  std::erase(guarded().locks, &mutex_);
}

}  // namespace narrows
