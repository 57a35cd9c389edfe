#include "match/turn.hpp"

namespace narrows {

Turn::Turn(Constraint& constraint, Spent& spent)
    : constraint_(constraint), spent_(spent), lock_(constraint.lane().turn()), is_apart_(constraint.lane().is_apart()) {
  if (is_apart_) return;
  Lane& lane = constraint_.lane();
  lane.add_tokens(spent_.tokens - spent_.counted);
  spent_.counted = spent_.tokens;
  left_here_ = lane.call_work();
  lexicon_bytes_ = lane.home().bytes();
  epoch_ = lane.home().epoch();
}

Turn::~Turn() {
  settle();
  constraint_.drop_old();
  constraint_.count();
  if (is_apart_) return;
  const std::uint64_t now = constraint_.lane().home().bytes();
  const std::uint64_t before = constraint_.lane().home().epoch() == epoch_ ? lexicon_bytes_ : 0;
  constraint_.lane().spend(0, now - std::min(now, before));
}

void Turn::settle() {
  const std::uint64_t done = given_ - work_.left;
  given_ = work_.left = 0;
  done_ += done;
  spent_.work += done;
  if (is_apart_) return;
  left_here_ -= std::min(left_here_, done);
  constraint_.lane().spend(done, 0);
}

void Turn::begin_replay() {
  settle();
  done_ = 0;
}

void Turn::check_replay() const {
  if (done_ / kReplaySteps > constraint_.limits().step_work)
    limit_reached("step_work", "what was dropped takes more work to be made again than the limit allows");
}

Work& Turn::step(std::uint64_t part) {
  settle();
  const Limits& limits = constraint_.limits();
  const std::uint64_t sequence = limits.sequence_work + limits.sequence_work / kTokens * spent_.tokens;
  const std::uint64_t left = sequence - std::min(sequence, spent_.work);
  work_ = {limits.step_work / part, Work::Bound::step};
  if (left < work_.left) work_ = {left, Work::Bound::sequence};
  if (!is_apart_ && left_here_ < work_.left) work_ = {left_here_, Work::Bound::shared};
  given_ = work_.left;
  return work_;
}

}  // namespace narrows
