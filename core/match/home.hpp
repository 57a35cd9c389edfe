// The cache of what constraints compute about their terminals: a lexicon under one lock.
//
//   Home  the lexicon and its lock. A vocabulary has one that its constraints share.
//   Lane  the home that one constraint is in. A constraint that needs much work moves into a home of its own, and never
//         back. There only its own sequences wait for it.
//
// In the shared home a call may spend `kCallWork` units at most (a unit is about 5 ns). All calls of a constraint
// together may spend `kWork` units there, plus `kTokenWork` for each token that was read, and `kBytes` of memory. A
// constraint that needs more moves, and the call is repeated. If `limits.step_work` is less than `kWork`, all these
// bounds are reduced in proportion.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "automata/lexicon.hpp"
#include "match/fair_mutex.hpp"
#include "match/fork.hpp"

namespace narrows {

class Home {
 public:
  // If the lexicon has more than `max_bytes`, it is dropped at the next call. A call that would bring it beyond
  // `most_bytes` is refused.
  Home(std::shared_ptr<const Trie> trie, std::uint32_t mask_words, std::uint64_t max_bytes,
       std::uint64_t most_bytes = kNoBound);

  FairMutex& mutex() { return mutex_; }
  // Needs no lock: the value at the last release of the lock.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // The shared lock suffices.
  const Lexicon& lexicon() const { return *lexicon_; }
  std::uint64_t epoch() const { return epoch_; }  // changes when the lexicon was dropped; 1 at first

  // All functions below need the exclusive lock.
  Lexicon& lexicon() { return *lexicon_; }
  void renew();
  // Drops the lexicon if it is too large. Returns whether it did.
  bool make_room();
  // After a replay for which it was dropped: throws where that alone has filled the room again.
  void check_room();
  void count() { bytes_.store(lexicon_->bytes(), std::memory_order_relaxed); }

 private:
  std::shared_ptr<const Trie> trie_;
  std::uint32_t mask_words_;
  std::uint64_t max_bytes_, most_bytes_;
  FairMutex mutex_;
  ForkGuard guard_{mutex_};
  std::unique_ptr<Lexicon> lexicon_;
  std::uint64_t epoch_ = 1;
  std::uint64_t needed_alone_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
};

class Lane {
 public:
  static constexpr std::uint64_t kCallWork = 4'000'000;
  static constexpr std::uint64_t kWork = 20'000'000;
  static constexpr std::uint64_t kTokenWork = 50'000;
  static constexpr std::uint64_t kBytes = 16'000'000;

  Lane(Home& shared, std::uint64_t step_work)
      : shared_(shared), home_(&shared), step_work_(std::min(step_work, kWork)) {}

  // Needs no lock. Once true, it stays true.
  bool is_apart() const { return home_.load(std::memory_order_acquire) != &shared_; }

  // The lock of the constraint's home. While it is held, the constraint stays in that home.
  std::shared_lock<FairMutex> read() const;
  std::unique_lock<FairMutex> write() const;
  // Under the shared or the exclusive lock.
  Home& home() const { return *home_.load(std::memory_order_relaxed); }

  // Under the exclusive lock of the shared home: the work that a call may do there, and what has been done.
  std::uint64_t call_work() const;
  void spend(std::uint64_t work, std::uint64_t bytes) {
    work_ += work;
    bytes_ += bytes;
  }
  void add_tokens(std::uint64_t count) { tokens_ += count; }

  // Moves into a new home. Needs the exclusive lock of the shared one.
  void move(std::unique_ptr<Home> made);

 private:
  Home& shared_;
  std::unique_ptr<Home> own_;
  std::atomic<Home*> home_;
  std::uint64_t step_work_;
  std::uint64_t work_ = 0, tokens_ = 0, bytes_ = 0;  // in the shared home
};

}  // namespace narrows
