// Whether a text can be ended with so many characters, or other items, at most. A text beside a greatest length has a
// state for each count. Here the text is followed alone, and its items are counted: what is found of one of its states
// holds for every count.
//
// Cost: a best-first search over the states of the text, at most. What it finds is kept: how many items are needed at
// least, and of how many an end is known. So a state that was met before takes few steps.
#include <algorithm>
#include <compare>
#include <functional>
#include <utility>

#include "automata/lexicon.hpp"

namespace narrows {

// A part without a greatest number of such items that the whole text does not reach, as the 64 characters before the @.
TermId Lexicon::without_slack(TermId part, TermId items, std::uint64_t most, Work& work) {
  const Bound bound = bound_of(part);
  if (bound.any == kNone || bound.max < most) return part;
  const TermId first = terms_[bound.items].op == Op::cat ? terms_[bound.items].a : bound.items;
  if (terms_[first].op != Op::repeat) return part;
  const TermId item = terms_[items].a;
  return holds_only(terms_[first].a, item, item, work) ? bound.least : part;
}

// An intersection as a text and its counters, none where no part is a counter of items that can be told apart. Counters
// go together where an item of one of them is an item of the others.
Lexicon::CountedText Lexicon::counted_text(TermId term, Work& work) {
  constexpr std::size_t kMostParts = 8;
  const auto [both, rest] = intersection(term);
  if (both == kNever || !terms_[rest].plain) return {};
  const std::vector<TermId> parts(terms_.parts(both).begin(), terms_.parts(both).end());
  work.spend(16 * parts.size());
  if (parts.size() > kMostParts) return {};
  std::vector<Bound> bounds;
  for (TermId part : parts) {
    bounds.push_back(bound_of(part, true));
    Bound& bound = bounds.back();
    if (bound.any == kNone || terms_[bound.items].op != Op::repeat || !is_prefix_free(terms_[bound.items].a, work) ||
        !is_state(bound.any, bound.items, work))
      bound.any = kNone;
  }
  CountedText found;
  std::size_t most = 0;
  for (const Bound& mine : bounds) {
    if (mine.any == kNone) continue;
    std::vector<TermId> counters, others;
    CountedText made{.rest = rest, .state = {mine.any, mine.items}, .max = mine.max};
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Bound& bound = bounds[k];
      const bool is_counter =
          bound.any != kNone && (bound.items == mine.items ||
                                 holds_only(terms_[mine.items].a, terms_[bound.items].a, terms_[bound.items].a, work));
      if (!is_counter) {
        others.push_back(parts[k]);
        continue;
      }
      counters.push_back(parts[k]);
      made.min = std::max(made.min, bound.min);
      made.max = std::min(made.max, bound.max);
    }
    if (counters.size() <= most || made.max == kNoMax) continue;
    most = counters.size();
    for (TermId& part : others) part = without_slack(part, mine.items, made.max, work);
    const auto follows = [&](TermId part) {
      return terms_[part].plain && holds_only(part, mine.items, mine.any, work);
    };
    if (std::ranges::none_of(others, follows)) others.push_back(mine.any);
    made.text = terms_.both(others);
    made.counter = terms_.both(counters);
    found = made;
  }
  return found;
}

// Whether one item leads back to a state: then it has ends of any number of items from the fewest on.
bool Lexicon::repeats(const Row& row, const Row& counts, TermId text, TermId now) {
  for (std::size_t b = 0; b < 256; ++b)
    if (row.next[b] == text && counts.next[b] == now) return true;
  return false;
}

// What is known of a state of a text, which is between two items or within one.
std::uint32_t Lexicon::left_at(TermId text, const CounterState& state, Work& work) {
  if (const std::uint32_t known = left_of_.find(text, state.now); known != kNone) return known;
  Left left;
  if (terms_[text].nullable && terms_[state.now].nullable) {
    left.known = 0;
    left.goes_on =
        state.now == state.between && repeats(raw_row(text, work), raw_row(state.now, work), text, state.now);
  } else if (const Reaches reached = items_in(text, state, work); reached.is_known) {
    left.least = kNone;
    for (const Reach& one : reached.all)
      if (terms_[one.to].nullable) left.least = std::min(left.least, one.least);
  }
  const auto made = static_cast<std::uint32_t>(lefts_.size());
  lefts_.push_back(left);
  left_of_.insert(text, state.now, made);
  return made;
}

// The items of a text that the state mostly accepts (guess); kNone where it does not.
std::uint32_t Lexicon::guessed_items(TermId text, const CounterState& state, Work& work) {
  std::uint32_t items = 0;
  TermId now = state.now;
  for (const std::uint8_t byte : guess(text, work)) {
    items += now == state.between ? 1 : 0;
    text = derivative(text, byte, work);
    now = raw_row(now, work).next[byte];
    if (text == kNever || now == kNever) return kNone;
  }
  return terms_[text].nullable && terms_[now].nullable ? items : kNone;
}

// The search takes next what needs the fewest bytes, those of all parts together. If it fails, more items are needed
// from all that it met. Unknown where the end that it found has too few items.
Lexicon::Life Lexicon::ends_within(TermId text, const CounterState& state, std::uint64_t least,
                                   std::uint64_t most_items, Work& work) {
  if (least > most_items) return Life::dead;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(most_items, kNone - 1));
  struct Met {
    TermId text, now;
    std::uint32_t left, from, items;
    std::uint8_t byte;  // that led here
    bool repeats;
  };
  struct Open {
    std::uint64_t bytes;
    std::uint32_t index;
    auto operator<=>(const Open&) const = default;
  };
  std::vector<Met> met;
  std::vector<Open> open;
  bool is_cut = false;
  std::uint32_t end = kNone;
  ++searches_;
  const auto reach = [&](TermId to, TermId now, std::uint32_t from, std::uint32_t items, std::uint8_t byte) {
    const std::uint32_t at = left_at(to, {now, state.between}, work);
    Left& left = lefts_[at];
    if (left.least == kNone) return;
    if (std::uint64_t{items} + left.least > most) {
      is_cut = true;
      return;
    }
    if (left.search != searches_ && left.known == kNone && plainly_dead(to, work)) {
      lefts_[at].least = kNone;
      return;
    }
    if (left.search == searches_ && met[left.met].items <= items) return;
    const auto index = static_cast<std::uint32_t>(met.size());
    left.search = searches_;
    left.met = index;
    met.push_back({to, now, at, from, items, byte, false});
    if (left.known != kNone && std::uint64_t{items} + left.known <= most) end = index;
    std::uint64_t bytes = 0;
    for (const TermId part : terms_.split(to, Op::both)) bytes += terms_.shortest_length(part);
    open.push_back({bytes, index});
    std::ranges::push_heap(open, std::greater<>{});
  };
  reach(text, state.now, kNone, 0, 0);
  while (!open.empty() && end == kNone) {
    std::ranges::pop_heap(open, std::greater<>{});
    const std::uint32_t index = open.back().index;
    open.pop_back();
    const Met at = met[index];
    if (lefts_[at.left].met != index) continue;  // it was met again, after fewer items
    if (lefts_[at.left].known == kNone) {
      lefts_[at.left].known = guessed_items(at.text, {at.now, state.between}, work);
      lefts_[at.left].is_guessed = true;
    }
    if (lefts_[at.left].known <= most - at.items) {
      end = index;
      break;
    }
    const bool begins = at.now == state.between;
    const Row &row = raw_row(at.text, work), &counts = raw_row(at.now, work);
    work.spend(48);
    met[index].repeats = begins && repeats(row, counts, at.text, at.now);
    TermId last = kNever, last_now = kNever;
    for (std::size_t b = 0; b < 256 && end == kNone; ++b) {
      const TermId to = row.next[b], now = counts.next[b];
      if (to == kNever || now == kNever || (to == last && now == last_now)) continue;
      last = to;
      last_now = now;
      reach(to, now, index, at.items + (begins ? 1 : 0), static_cast<std::uint8_t>(b));
    }
  }
  if (end != kNone) {
    const std::uint32_t all = met[end].items + lefts_[met[end].left].known;
    bool goes_on = lefts_[met[end].left].goes_on;
    std::uint32_t after = kNone;
    for (std::uint32_t at = end; at != kNone; after = std::exchange(at, met[at].from)) {
      goes_on = goes_on || met[at].repeats;
      Left& left = lefts_[met[at].left];
      if (all - met[at].items >= left.known && left.goes_on >= goes_on) continue;
      left.known = all - met[at].items;
      left.goes_on = goes_on;
      left.is_guessed = after == kNone;
      if (after != kNone) left.byte = met[after].byte;
    }
    return all >= least || goes_on ? Life::alive : Life::unknown;
  }
  for (std::uint32_t at = 0; at < met.size(); ++at) {
    Left& left = lefts_[met[at].left];
    if (left.met != at) continue;
    left.least = is_cut ? std::max(left.least, most + 1 - met[at].items) : kNone;
  }
  return Life::dead;
}

// The bytes of the end that is known of a state; none where they are many.
std::vector<std::uint8_t> Lexicon::end_of(TermId text, const CounterState& state, Work& work) {
  constexpr std::size_t kMostBytes = 128;
  std::vector<std::uint8_t> bytes;
  TermId now = state.now;
  while (!(terms_[text].nullable && terms_[now].nullable)) {
    if (bytes.size() == kMostBytes) return {};
    const Left& left = lefts_[left_at(text, {now, state.between}, work)];
    if (left.is_guessed) {
      const std::vector<std::uint8_t> rest = guess(text, work);
      bytes.insert(bytes.end(), rest.begin(), rest.end());
      break;
    }
    bytes.push_back(left.byte);
    text = raw_row(text, work).next[bytes.back()];
    now = raw_row(now, work).next[bytes.back()];
  }
  return bytes;
}

// The same as far as it is known of this state of the text.
Lexicon::Life Lexicon::known_end(TermId text, const CounterState& state, std::uint64_t least,
                                 std::uint64_t most) const {
  if (least > most) return Life::dead;
  const std::uint32_t at = left_of_.find(text, state.now);
  if (at == kNone) return Life::unknown;
  const Left& left = lefts_[at];
  if (left.least > most) return Life::dead;
  return left.known <= most && (left.known >= least || left.goes_on) ? Life::alive : Life::unknown;
}

// Whether a text beside counters can be ended, as far as it is known.
Lexicon::Life Lexicon::life_by_items(TermId term, bool is_searched, Work& work) {
  const CountedText found = counted_text(term, work);
  if (found.text == kNone) return Life::unknown;
  if (is_searched && accepts(term, guess(term, work), work)) return Life::alive;
  const Life life = is_searched ? ends_within(found.text, found.state, found.min, found.max, work)
                                : known_end(found.text, found.state, found.min, found.max);
  if (life == Life::dead) mark_dead(term);
  if (life == Life::alive) accepts(term, end_of(found.text, found.state, work), work);  // where it has enough items
  return life;
}

}  // namespace narrows
