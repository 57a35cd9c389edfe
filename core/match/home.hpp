// The cache of what constraints compute about their terminals: a lexicon under two locks.
//
//   Home  the lexicon and its locks. A vocabulary has one that its constraints share.
//   Lane  the home that one constraint is in. A constraint that needs much work moves into a home of its own, and never
//         back. There only its own sequences wait for it.
//
// The lock of turns is held by the thread that computes, for as long as it does. Only others that compute wait for it.
// The lock of memory is held shared by those who read what is known (match/known.hpp). It is held exclusively, for a
// moment, by a thread that has its turn and gives back memory that others may look at, or that moves a constraint.
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

  FairMutex& turns() { return turns_; }
  FairMutex& memory() { return memory_; }
  // Needs no lock: the value at the end of the last turn.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // The shared lock of memory suffices.
  std::uint64_t epoch() const { return epoch_; }  // changes when the lexicon was dropped; 1 at first

  // All functions below need the lock of turns.
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
  FairMutex turns_, memory_;
  ForkGuard guard_{turns_}, memory_guard_{memory_};  // in the order in which a thread takes them
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

  // The locks of the constraint's home. While one is held, the constraint stays in that home.
  std::shared_lock<FairMutex> read() const;
  std::shared_lock<FairMutex> try_read() const;  // does not wait, and may own nothing
  std::unique_lock<FairMutex> turn() const;
  // In a turn, before memory is given back that others may read.
  std::unique_lock<FairMutex> alone() const { return std::unique_lock(home().memory()); }
  // Under any of these.
  Home& home() const { return *home_.load(std::memory_order_relaxed); }

  // In a turn of the shared home: the work that a call may do there, and what has been done.
  std::uint64_t call_work() const;
  void spend(std::uint64_t work, std::uint64_t bytes) {
    work_ += work;
    bytes_ += bytes;
  }
  void add_tokens(std::uint64_t count) { tokens_ += count; }

  // Moves into a new home. Needs both locks of the shared one, that of memory exclusively.
  void move(std::unique_ptr<Home> made);

 private:
  Home& shared_;
  std::unique_ptr<Home> own_;
  std::atomic<Home*> home_;
  std::uint64_t step_work_;
  std::uint64_t work_ = 0, tokens_ = 0, bytes_ = 0;  // in the shared home
};

}  // namespace narrows
