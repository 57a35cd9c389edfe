// Whether masks of a text that has to satisfy several rules take too much work, found out before a text is begun. A mask
// that is refused in the middle of a text would end it there.
//
// Cost: that of some masks, which are kept. Only where two of the rules have many states.
#include <algorithm>
#include <functional>

#include "automata/lexicon.hpp"

namespace narrows {

// The intersections in terms, each with what follows it there, and after what comes right before it.
std::vector<Lexicon::Ruled> Lexicon::texts_of_rules(std::span<const TermId> terms, Work& work) {
  std::vector<Ruled> found;
  std::vector<TermId> open;
  std::vector<bool> met(terms_.size());
  const auto reach = [&](TermId term) {
    if (!terms_[term].plain && !met[term]) open.push_back(term);
    if (!terms_[term].plain) met[term] = true;
  };
  for (TermId term : terms) reach(term);
  while (!open.empty()) {
    const TermId term = open.back();
    const Term& t = terms_[term];
    open.pop_back();
    work.spend(2);
    if (intersection(term).first != kNever) {
      found.push_back({term, term});
    } else if (t.op == Op::cat && intersection(t.b).first != kNever) {
      met[t.b] = true;
      found.push_back({term, t.b});
    }
    if (t.op == Op::alt) {
      for (TermId part : terms_.parts(term)) reach(part);
    } else if (t.op == Op::repeat) {
      reach(t.a);
    } else if (t.op == Op::cat) {
      if (terms_[t.a].op != Op::both) reach(t.a);
      reach(t.b);
    }
  }
  return found;
}

// The text itself, the same after its first byte, and where few characters are left: most other masks take less.
std::vector<TermId> Lexicon::costly_places(const Ruled& ruled, Work& work) {
  constexpr std::uint64_t kCostly = 1'000'000;  // states of two rules together
  constexpr std::uint64_t kFewStates = 16;
  const TermId text = ruled.text;
  const std::vector<TermId> rules = terms_.split(intersection(text).first, Op::both);
  work.spend(rules.size());
  const auto is_length = [&](TermId rule) {  // and few states beside its count
    const Term& t = terms_[rule];
    return t.op == Op::repeat || (t.op == Op::cat && terms_[t.a].op == Op::repeat && terms_[t.a].c != kNoMax &&
                                  most_states(t.b, work) < kFewStates);
  };
  std::vector<std::uint64_t> states;
  for (const TermId rule : rules) {
    if (is_length(rule)) continue;
    states.push_back(most_states(terms_[rule].op == Op::complement ? terms_[rule].a : rule, work));
  }
  std::ranges::sort(states, std::greater<>{});
  if (states.size() < 2 || states[0] * states[1] < kCostly || !alive(text, work)) return {};
  const CountedText counted = counted_text(text, work);
  const bool is_counted = counted.text != kNone;
  std::vector<TermId> found{text};
  // What may come first is often less than what may come next, as in a name of labels.
  if (const std::vector<std::uint8_t> end = way_out(text, work); !end.empty())
    found.push_back(step(text, end.front(), work));
  // Only what goes round comes back to where it began.
  if (!is_counted || !goes_round_soon(terms_.cat(counted.text, counted.rest), work)) return found;
  if (plainly_dead(counted.text, work)) return found;
  const std::uint64_t items = guessed_items(counted.text, counted.state, work);
  for (const std::uint64_t left : {items + 2, items + 16}) {
    if (left >= counted.max) continue;
    const TermId counter = terms_.repeat(terms_[counted.state.between].a, 0, static_cast<std::uint32_t>(left));
    found.push_back(terms_.cat(terms_.both(std::vector<TermId>{counted.text, counter}), counted.rest));
  }
  return found;
}

}  // namespace narrows
