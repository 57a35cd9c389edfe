// One call under the exclusive lock of a constraint's home, and the work that it may do.
//
// Each step of a call has `limits.step_work`; all calls of a sequence have `limits.sequence_work`, and as much again for each
// 10,000 tokens of its text; and in the shared home the call as a whole has what Lane gives it. The least of these bounds a step.
#pragma once

#include <cstdint>

#include "match/constraint.hpp"

namespace narrows {

// What a sequence has done so far. It is not given back by a rollback, and a fork begins with it.
struct Spent {
  std::uint64_t work = 0;
  std::uint64_t tokens = 0;   // in its text where that was longest
  std::uint64_t counted = 0;  // of these, known to the constraint
};

class Turn {
 public:
  // As many tokens bring the same again.
  static constexpr std::uint64_t kTokens = 10'000;

  // Waits for the lock.
  Turn(Constraint& constraint, Spent& spent);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // What the next step may spend, until the next one begins. Throws Crowded where it must be done apart.
  Work& step();
  // What was done so far is no part of the replay that begins.
  void begin_replay();
  // Before a step of a replay: a sequence that takes too much work to be brought back is given up.
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
