// A reader-writer lock without starvation: once a writer waits, all threads that come later queue after it.
//
// std::shared_mutex of glibc lets readers pass a writer that waits: a few readers without a pause between them keep a
// writer out for seconds. Use this lock with std::shared_lock and std::unique_lock. Its extra cost is one load per
// reader.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>

namespace narrows {

class FairMutex {
 public:
  void lock() {
    writers_.fetch_add(1, std::memory_order_relaxed);
    stand_in_line();
    mutex_.lock();
    writers_.fetch_sub(1, std::memory_order_relaxed);
    call_the_next();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    if (writers_.load(std::memory_order_relaxed) == 0) {
      mutex_.lock_shared();
      return;
    }
    stand_in_line();
    mutex_.lock_shared();
    call_the_next();
  }
  // Does not wait: also fails where a writer waits.
  bool try_lock_shared() { return writers_.load(std::memory_order_relaxed) == 0 && mutex_.try_lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  void stand_in_line() {
    const std::uint32_t mine = last_.fetch_add(1, std::memory_order_relaxed);
    for (std::uint32_t now = called_.load(); now != mine; now = called_.load()) called_.wait(now);
  }
  void call_the_next() {
    called_.fetch_add(1);
    called_.notify_all();
  }

  std::shared_mutex mutex_;
  std::atomic<std::uint32_t> writers_ = 0;  // the number that wait
  std::atomic<std::uint32_t> last_ = 0, called_ = 0;
};

}  // namespace narrows
