// White space, and the texts that come after it.
//
// In a programming language names may come after nearly every bit of white space, and tens of thousands of tokens are
// white space and the beginning of a name. What they have in common does not depend on the place: it is the record of
// the white space with the name as one term. So it is made once, and not walked at each place.
//
// Cost: a look at the rows of the white space, once.
#include <algorithm>

#include "automata/lexicon.hpp"

namespace narrows {

namespace {
constexpr std::size_t kMostStates = 16;  // a comment up to the end of its line has 10
constexpr Groups kMostLetters = group_of('G') | group_of('g');
}  // namespace

// Whether a term has few states. Adds the bytes that go on where it may end.
bool Lexicon::has_few_rows(TermId term, ByteSet& bytes, Work& work) {
  std::vector<TermId> met{term};
  for (std::size_t i = 0; i < met.size(); ++i) {
    const Row& r = row(met[i], work);
    work.spend(16);
    if (terms_[met[i]].nullable) bytes |= r.first;
    TermId last = kNever;
    for (TermId next : r.next) {
      if (next == last || next == kNever || std::ranges::find(met, next) != met.end()) continue;
      last = next;
      if (met.size() == kMostStates) return false;
      met.push_back(next);
    }
  }
  return true;
}

bool Lexicon::is_gap(TermId crossings_of, Work& work) {
  Inside& record = *inside_[crossings_of];
  if (record.gap == Inside::Gap::unknown) {
    const bool is_gap = has_much_beyond(crossings_of, work) && has_few_rows(crossings_of, record.gap_bytes, work);
    record.gap = is_gap ? Inside::Gap::yes : Inside::Gap::no;
  }
  return record.gap == Inside::Gap::yes;
}

TermId Lexicon::with_text(TermId gap, TermId text, Work& work) {
  const TermId clamped = clamp(text, work);
  const Row& begun = row(clamped, work);
  if ((begun.first_groups & ~begun.uneven & kMostLetters) == 0) return kNone;
  if (!(inside_[gap]->gap_bytes & begun.first).empty()) return kNone;
  // The crossings come after some byte of the gap, so the text alone need not be in the record.
  const Term g = terms_[gap];
  const bool may_be_left_out = g.op == Op::repeat && g.b == 0;
  return clamp_inside(terms_.cat(may_be_left_out ? terms_.repeat(g.a, 1, g.c) : gap, clamped), work);
}

}  // namespace narrows
