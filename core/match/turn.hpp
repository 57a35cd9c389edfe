// One call that computes, under the lock of turns of a constraint's home, and the work that it may do.
//
// Three bounds hold. Each step of a call may spend `limits.step_work`. All calls of a sequence together may spend
// `limits.sequence_work`, and as much again for each 10,000 tokens of its text. In the shared home, Lane bounds the
// call as a whole. A step may spend the least of these.
#pragma once

#include <cstdint>

#include "match/constraint.hpp"

namespace narrows {

// The work of a sequence so far. A rollback does not reduce it, and a fork begins with its parent's.
struct Spent {
  std::uint64_t work = 0;
  std::uint64_t tokens = 0;   // the greatest number of tokens that its text has had
  std::uint64_t counted = 0;  // of these, known to the constraint
};

class Turn {
 public:
  // So many tokens add another `limits.sequence_work`.
  static constexpr std::uint64_t kTokens = 10'000;

  // Waits for the lock.
  Turn(Constraint& constraint, Spent& spent);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // The budget of the next step, or a part of it: 2 is the half. Throws Crowded if the call must be repeated in a home of
  // its own.
  Work& step(std::uint64_t part = 1);
  // What was done so far is no part of the replay that begins.
  void begin_replay();
  // Call it before each step of a replay. Throws if the replay takes too much work.
  void check_replay() const;

 private:
  static constexpr std::uint64_t kReplaySteps = 5;  // as many times what a step may take

  void settle();

  Constraint& constraint_;
  Spent& spent_;
  std::unique_lock<FairMutex> lock_;
  bool is_apart_;
  std::uint64_t lexicon_bytes_ = 0;  // before the call
  std::uint64_t epoch_ = 0;
  std::uint64_t left_here_ = 0;  // of what the call may do in the shared home
  std::uint64_t given_ = 0, done_ = 0;
  Work work_{0};
};

}  // namespace narrows
