// Bounds of counters that make no difference: for the tokens that may come next, or to whether a text can be ended.
//
// A string with a pattern and a length is an intersection of two terms, and has a state for each count. Most of its
// texts are far from the greatest length; there it has the states of the pattern alone.
#include <algorithm>
#include <bit>

#include "automata/lexicon.hpp"

namespace narrows {

namespace {
constexpr std::uint64_t kStops = ~0ull;  // no set of states: the list of items cannot go on
}  // namespace

TermId Lexicon::clamp(TermId term, Work& work) {
  const TermId id = terms_.clamp(term, trie_->longest_token());
  if (terms_[id].plain) return id;
  if (id < clamped_.size() && clamped_[id] != kNone) return clamped_[id];
  const TermId without = without_most(id, trie_->longest_token(), work);
  if (clamped_.size() <= id) clamped_.resize(terms_.size(), kNone);
  return clamped_[id] = without == kNone ? id : without;
}

TermId Lexicon::clamp_inside(TermId term, Work& work) {
  const TermId id = clamp(term, work);
  if (terms_[id].plain) return id;
  if (id < clamped_inside_.size() && clamped_inside_[id] != kNone) return clamped_inside_[id];
  TermId found = without_most(id, 0, work);
  if (found == kNone || without_most(id, inside(found, work).deepest, work) == kNone) found = id;
  if (clamped_inside_.size() <= id) clamped_inside_.resize(terms_.size(), kNone);
  return clamped_inside_[id] = found;
}

// What begins with an intersection of a counter and a plain text, such as a pattern with a length, without the greatest
// number of the counter: kNone where that may make a difference within the next `room` bytes, or to whether a text
// can be ended. It makes none where the text may hold nothing but what is counted, and the number is not reached by
// these bytes, the least number, and then the shortest way to an end, wherever in the text that is.
TermId Lexicon::without_most(TermId term, std::uint64_t room, Work& work) {
  const auto [both, rest] = intersection(term);
  if (both == kNever || terms_.parts(both).size() != 2) return kNone;
  work.spend(8);
  for (std::size_t i = 0; i < 2; ++i) {
    const TermId counter = terms_.parts(both)[i], text = terms_.parts(both)[1 - i];
    if (!terms_[counter].plain || !terms_[text].plain) return kNone;
    std::vector<TermId> begun;  // the rest of an item
    TermId at = counter;
    for (; terms_[at].op == Op::cat; at = terms_[at].b) begun.push_back(terms_[at].a);
    const Term count = terms_[at];
    if (count.op != Op::repeat || count.c == kNoMax || terms_[count.a].nullable || begun.size() > 4) continue;
    if (count.c < room + count.b + terms_.longest_way(text)) continue;
    const TermId items = terms_.repeat(count.a, 0, kNoMax);
    TermId any = items, least = terms_.repeat(count.a, count.b, kNoMax);
    for (; !begun.empty(); begun.pop_back()) {
      any = terms_.cat(begun.back(), any);
      least = terms_.cat(begun.back(), least);
    }
    if (!holds_only(text, items, any, work)) continue;
    return terms_.cat(least == any ? text : terms_.both(std::vector<TermId>{least, text}), rest);
  }
  return kNone;
}

// Whether a plain text holds nothing but items: it is what is left of a list of items at the state `from`.
bool Lexicon::holds_only(TermId text, TermId items, TermId from, Work& work) {
  std::uint32_t at = counted_text_of_.find(items, 0);
  if (at == kNone) {
    auto made = states_of(items, work);  // may reach a limit, or come here for other items: only then it has its number
    at = static_cast<std::uint32_t>(counted_texts_.size());
    counted_texts_.push_back(std::move(made));
    counted_text_of_.insert(items, 0, at);
  }
  Items& list = *counted_texts_[at];
  const auto found = std::ranges::find(list.states, from);
  if (found == list.states.end()) return false;
  const auto before = list.after_of.bytes() + held(list.after);
  const std::uint64_t ends = after(text, static_cast<std::uint32_t>(found - list.states.begin()), list, work);
  items_bytes_ += list.after_of.bytes() + held(list.after) - before;
  return (ends & ~list.ends) == 0;
}

// The states of a list of items; none where there are too many.
std::unique_ptr<Lexicon::Items> Lexicon::states_of(TermId items, Work& work) {
  constexpr std::size_t kMostStates = 63;
  auto made = std::make_unique<Items>();
  made->states.push_back(items);
  for (std::size_t i = 0; i < made->states.size(); ++i) {
    const Row& r = row(made->states[i], work);
    for (TermId next : r.next) {
      if (next == kNever || std::ranges::find(made->states, next) != made->states.end()) continue;
      if (made->states.size() == kMostStates) return std::make_unique<Items>();
      made->states.push_back(next);
    }
    if (terms_[made->states[i]].nullable) made->ends |= 1ull << i;
    work.spend(128);
  }
  items_bytes_ += sizeof(Items) + kHeapBlock + held(made->states);
  return made;
}

// The states of a list of items after the texts of a plain term, which begin at one state; kStops where one of them
// does not go on. Each part of the term is looked at once for each state.
std::uint64_t Lexicon::after(TermId term, std::uint32_t state, Items& list, Work& work) {
  if (const std::uint32_t known = list.after_of.find(term, state); known != kNone) return list.after[known];
  work.spend(8);
  const Term t = terms_[term];
  const auto after_all = [&](TermId part, std::uint64_t states) {
    std::uint64_t all = 0;
    for (; states != 0 && states != kStops && all != kStops; states &= states - 1)
      all |= after(part, static_cast<std::uint32_t>(std::countr_zero(states)), list, work);
    return states == kStops ? kStops : all;
  };
  const auto step = [&](std::uint32_t from, std::uint8_t byte) {
    const TermId next = row(list.states[from], work).next[byte];
    return static_cast<std::uint32_t>(std::ranges::find(list.states, next) - list.states.begin());
  };
  std::uint64_t found = t.op == Op::empty ? 1ull << state : 0;
  switch (t.op) {
    case Op::set: {
      const ByteSet bytes = terms_.bytes_of(term);
      bytes.for_each([&](std::uint8_t b) {
        const std::uint32_t to = step(state, b);
        found = to == list.states.size() ? kStops : found == kStops ? kStops : found | 1ull << to;
      });
      break;
    }
    case Op::literals:
      for (const auto& option : terms_.options(term)) {
        std::uint32_t at = state;
        for (std::size_t i = 0; i < option.size() && at < list.states.size(); ++i) at = step(at, option[i]);
        found = at == list.states.size() ? kStops : found == kStops ? kStops : found | 1ull << at;
        work.spend(option.size());
      }
      break;
    case Op::alt: {
      const std::vector<TermId> parts(terms_.parts(term).begin(), terms_.parts(term).end());
      for (TermId part : parts) found |= after(part, state, list, work);
      break;
    }
    case Op::repeat:
      for (std::uint64_t all = 1ull << state; found != kStops && found != all; all = found)
        found = all | after_all(t.a, all);
      break;
    case Op::cat: {
      found = 1ull << state;
      TermId at = term;
      for (; terms_[at].op == Op::cat && found != kStops; at = terms_[at].b) found = after_all(terms_[at].a, found);
      if (found != kStops) found = after_all(at, found);
      break;
    }
    default:
      found = t.op == Op::empty || t.op == Op::never ? found : kStops;
      break;
  }
  list.after_of.insert(term, state, static_cast<std::uint32_t>(list.after.size()));
  list.after.push_back(found);
  return found;
}

}  // namespace narrows
