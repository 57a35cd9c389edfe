// Bounds of counters that make no difference: for the tokens that may come next, or to whether a text can be ended.
//
// A string with a pattern and a length is an intersection of two terms, and has a state for each count. Most of its
// texts are far from the greatest length; there it has the states of the pattern alone. So it is with further parts,
// such as that an e-mail address has at most 64 characters before the @.
//
// Cost: once for each intersection that is asked about; for each part, its states (63 at most), and each part of the
// text once for each of these. Or a walk over the vocabulary for each state without bounds, and a look at its rows.
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
  const auto remember = [&](TermId as) {
    if (clamped_inside_.size() <= id) clamped_inside_.resize(terms_.size(), kNone);
    return clamped_inside_[id] = as;
  };
  remember(id);  // which is right, too: the records below may ask for this one
  const TermId found = without_most(id, 0, work);
  if (found == kNone) {
    if (until_closed(id, work).wider != kNone) return id;  // a text is known that it is like
    const Unbounded far = without_bounds(id, work);
    return far.wider != kNone && inside_[far.wider]->deepest <= far.room ? remember(far.wider) : id;
  }
  if (without_most(id, inside(found, work).deepest, work) == kNone) return id;
  return remember(found);
}

// Any other term without the greatest numbers of its counters. Within so many bytes the two do not differ: neither these
// nor the bytes that then end the text reach such a number. How long the ways to the end are is known once the record of
// the wider term is made, for that looks at all the states that tokens lead to.
Lexicon::Unbounded Lexicon::without_bounds(TermId term, Work& work) {
  if (terms_[term].plain) return {};
  const auto [wider, room] = terms_.without_bounds(term);
  if (wider == term || terms_[wider].plain || !has_few_parts(wider, work)) return {};
  if (is_open(wider) || is_passing(wider, work) || clamp_inside(wider, work) != wider) return {};
  if (inside_.size() <= wider || !inside_[wider]) {
    auto made = std::make_unique<Inside>();
    walk(wider, *made, work);
    made->way = longest_known_way(wider, work);
    keep(wider, std::move(made));
  }
  const std::uint64_t way = inside_[wider]->way;
  return way < room ? Unbounded{wider, room - way} : Unbounded{};
}

// Whether a term is made of few parts, each counted wherever it stands: its states are combinations of these. Those of
// an e-mail address that contains one of 200 words are below, those of one with the characters of all languages are not.
bool Lexicon::has_few_parts(TermId term, Work& work) const {
  constexpr std::size_t kMost = 4'000;
  std::vector<TermId> open{term};
  std::size_t seen = 0;
  while (!open.empty() && ++seen <= kMost) {
    const TermId id = open.back();
    const Term& t = terms_[id];
    open.pop_back();
    if (t.op == Op::cat) open.push_back(t.b);
    if (t.op == Op::cat || t.op == Op::repeat || t.op == Op::complement) open.push_back(t.a);
    if (t.op == Op::alt || t.op == Op::both) open.insert(open.end(), terms_.parts(id).begin(), terms_.parts(id).end());
    // A list of a few spellings of one letter is one part.
    if (t.op == Op::literals || t.op == Op::names) seen += (t.c - t.b) / 4;
  }
  work.spend(seen);
  return seen <= kMost;
}

// The most bytes that end a text of a term, from any state that its rows lead to so far.
std::uint64_t Lexicon::longest_known_way(TermId term, Work& work) {
  std::uint64_t longest = 0;
  std::vector<TermId> met{term};
  std::vector<bool> is_met(terms_.size());
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (!has_row(met[i]) || !rows_[row_of_[met[i]]]->final) continue;
    work.spend(32);
    TermId last = kNever;
    for (TermId next : rows_[row_of_[met[i]]]->next) {
      if (next == last || next == kNever) continue;
      last = next;
      if (is_met[next]) continue;
      is_met[next] = true;
      if (terms_[next].plain) {
        longest = std::max(longest, terms_.longest_way(next));
        continue;
      }
      std::uint64_t way = known_way(next);
      for (std::size_t k = 0; way == kNoWay && k < found_.size(); ++k)
        if (accepts(next, found_[k], work)) way = known_way(next);
      longest = std::max(longest, way);
      met.push_back(next);
    }
  }
  return longest;
}

// The wider form of what begins with an intersection (Unbounded), kNone where the two may differ within the next `room`
// bytes, or in whether a text can be ended.
TermId Lexicon::without_most(TermId term, std::uint64_t room, Work& work) {
  if (intersection(term).first == kNever) return kNone;
  std::uint32_t known = unbounded_of_.find(term, 0);
  if (known == kNone) {
    const Unbounded found = unbounded(term, work);
    known = static_cast<std::uint32_t>(unbounded_.size());
    unbounded_.push_back(found);
    unbounded_of_.insert(term, 0, known);
  }
  return room <= unbounded_[known].room ? unbounded_[known].wider : kNone;
}

// One of the parts of the intersection may say all but how long a text is, as a pattern beside a length: it satisfies
// the other parts, without their greatest numbers. These make no difference as long as they are not reached by the next
// bytes and then the shortest way to an end, wherever in the text that is. Beside a single counter, its least number
// may stay: until that is reached the text goes on.
Lexicon::Unbounded Lexicon::unbounded(TermId term, Work& work) {
  constexpr std::size_t kMostParts = 8;
  const auto [both, rest] = intersection(term);
  const std::vector<TermId> parts(terms_.parts(both).begin(), terms_.parts(both).end());
  work.spend(32 * parts.size());
  if (parts.size() > kMostParts) return {};
  if (const Within found = within(term, work); found.text != kNone && found.bound.max > found.way + found.bound.min) {
    const TermId least = found.bound.min == 0 ? kAll : found.bound.least;
    return {terms_.cat(terms_.both(std::vector<TermId>{found.text, least}), rest), found.bound.max - found.way};
  }
  std::vector<Bound> bounds;
  for (TermId part : parts) bounds.push_back(bound_of(part));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TermId text = parts[i];
    if (!terms_[text].plain) continue;
    std::uint64_t room = kOutOfReach;
    TermId kept = text;
    const auto is_within = [&](const Bound& bound) {
      if (bound.any == kNone) return false;
      const std::uint64_t way = longest_way_in(text, bound, work);
      if (bound.max < way) return false;
      const std::uint64_t left = bound.max - way;
      if (bound.min == 0) {
        if (!holds_only(text, bound.items, bound.any, work)) return false;
      } else if (bound.min > 1 || !holds_only(text, bound.least, bound.least, work)) {
        if (parts.size() > 2 || left < bound.min || !holds_only(text, bound.items, bound.any, work)) return false;
        kept = terms_.both(std::vector<TermId>{bound.least, text});
      }
      room = std::min(room, left);
      return true;
    };
    const auto follows = [&](std::size_t k) {
      return is_within(bounds[k]) || (has_few_states(parts[k], work) && holds_only(text, parts[k], parts[k], work));
    };
    bool all_follow = true;
    for (std::size_t k = 0; k < parts.size() && all_follow; ++k) all_follow = k == i || follows(k);
    if (all_follow) return {terms_.cat(kept, rest), room};
  }
  return {};
}

// A plain term without the greatest numbers of the counters that it begins with. Within as many bytes as the shortest
// texts of that many items have, the two do not differ.
Lexicon::Unbounded Lexicon::uncounted(TermId term, Work& work) {
  if (const std::uint32_t known = unbounded_of_.find(term, 1); known != kNone) return unbounded_[known];
  Unbounded found{kNone, kOutOfReach};
  if (terms_[term].plain)
    if (const TermId wider = uncount(term, 0, found.room, work); wider != term) found.wider = wider;
  unbounded_of_.insert(term, 1, static_cast<std::uint32_t>(unbounded_.size()));
  unbounded_.push_back(found);
  return found;
}

// The first counter on each way into the term; the term itself where there is none. Reduces the room.
TermId Lexicon::uncount(TermId term, std::uint32_t depth, std::uint64_t& room, Work& work) {
  constexpr std::uint32_t kMostDepth = 8;
  constexpr std::uint64_t kLeastRoom = 8;  // most tokens have less
  work.spend(8 + terms_.take_compared());
  const Term t = terms_[term];
  if (depth == kMostDepth) return term;
  if (t.op == Op::repeat) {
    if (t.c == kNoMax || t.c == t.b || t.c == 1 || terms_[t.a].nullable || !has_few_states(t.a, work)) return term;
    const std::uint64_t bytes = t.c * terms_.shortest_length(t.a);
    if (bytes < kLeastRoom) return term;
    room = std::min(room, bytes);
    return terms_.repeat(t.a, t.b, kNoMax);
  }
  if (t.op == Op::alt) {
    std::vector<TermId> parts(terms_.parts(term).begin(), terms_.parts(term).end());
    for (TermId& part : parts) part = uncount(part, depth + 1, room, work);
    return terms_.alt(parts);
  }
  if (t.op != Op::cat) return term;
  if (const TermId head = uncount(t.a, depth + 1, room, work); head != t.a) return terms_.cat(head, t.b);
  return terms_.cat(t.a, uncount(t.b, depth + 1, room, work));
}

// At most so many states a plain term has, kManyStates where it has more or is not plain. Counted for every term, once:
// its parts are older.
std::uint64_t Lexicon::most_states(TermId term, Work& work) {
  while (plain_states_.size() <= term) {
    const auto at = static_cast<TermId>(plain_states_.size());
    const Term& t = terms_[at];
    work.spend(2);
    std::uint64_t states = 0;
    if (!t.plain || t.op == Op::substrings || (t.op == Op::literals && t.c - t.b >= kManyStates) ||
        (t.op == Op::alt && t.b >= kManyStates)) {
      states = kManyStates;
    } else if (t.op == Op::set) {
      states = 1;
    } else if (t.op == Op::literals) {
      work.spend(t.c - t.b);
      for (const auto& option : terms_.options(at)) states += option.size();
    } else if (t.op == Op::repeat) {
      states = plain_states_[t.a] * std::uint64_t{t.c == kNoMax ? std::max(t.b, 1u) : t.c};
    } else if (t.op == Op::alt) {
      work.spend(t.b);
      for (TermId part : terms_.parts(at)) states += plain_states_[part];
    } else if (t.op == Op::cat) {
      states = std::uint64_t{plain_states_[t.a]} + plain_states_[t.b];
    }
    plain_states_.push_back(static_cast<std::uint16_t>(std::min(states, kManyStates)));
  }
  return plain_states_[term];
}

// A term as the rest of an item, a counter of items, and what follows it. `also_least`: also a counter that has only a
// least number.
Lexicon::Bound Lexicon::bound_of(TermId term, bool also_least) {
  constexpr std::size_t kMostBegun = 4;
  std::vector<TermId> begun;  // the rest of an item
  TermId at = term;
  const auto counts = [&](TermId id) {
    const Term& t = terms_[id];
    const bool is_bounded = t.c != kNoMax || (also_least && t.b > 0);
    return t.op == Op::repeat && is_bounded && t.plain && !terms_[t.a].nullable;
  };
  for (; terms_[at].op == Op::cat && !counts(terms_[at].a) && begun.size() <= kMostBegun; at = terms_[at].b)
    begun.push_back(terms_[at].a);
  const bool is_last = terms_[at].op != Op::cat;
  const TermId counter = is_last ? at : terms_[at].a, after = is_last ? kEmpty : terms_[at].b;
  if (!counts(counter) || begun.size() > kMostBegun) return {};
  const Term count = terms_[counter];
  Bound found{.min = count.b, .max = count.c};
  found.items = found.any = terms_.cat(terms_.repeat(count.a, 0, kNoMax), after);
  found.least = terms_.cat(terms_.repeat(count.a, count.b, kNoMax), after);
  for (; !begun.empty(); begun.pop_back()) {
    found.any = terms_.cat(begun.back(), found.any);
    found.least = terms_.cat(begun.back(), found.least);
  }
  return found;
}

std::uint32_t Lexicon::keep_list(std::unique_ptr<States> made) {
  list_bytes_ += sizeof(States) + kHeapBlock + held(made->states);
  lists_.push_back(std::move(made));
  return static_cast<std::uint32_t>(lists_.size() - 1);
}

// The list of the states of a term, of which it is the first.
std::uint32_t Lexicon::list_of(TermId first, Work& work) {
  if (const std::uint32_t known = list_of_.find(first, 0); known != kNone) return known;
  auto made = states_of(first, work);  // may reach a limit, or come here for another: only then it has its number
  if (made->states.empty()) made->states.push_back(first);
  const std::vector<TermId> states = made->states;
  const std::uint32_t at = keep_list(std::move(made));
  list_of_.insert(first, 0, at);
  for (TermId one : states)
    if (list_with_.find(one, one) == kNone) list_with_.insert(one, one, at);
  return at;
}

// A list that has a state, and all that comes after it. Or that of `first`, to which the state is added: then nothing is
// said of what comes after it.
std::uint32_t Lexicon::list_with(TermId state, TermId first, Work& work) {
  if (const std::uint32_t known = list_with_.find(state, state); known != kNone) return known;
  if (const std::uint32_t known = list_with_.find(state, first); known != kNone) return known;
  const std::uint32_t own = list_of(first, work);
  if (const std::uint32_t known = list_with_.find(state, state); known != kNone) return known;
  auto made = std::make_unique<States>();
  made->states = lists_[own]->states;
  made->ends = lists_[own]->ends;
  made->states.push_back(state);
  const std::uint32_t at = keep_list(std::move(made));
  list_with_.insert(state, first, at);
  return at;
}

// Whether a term is one of the states of `first`, as far as these are few.
bool Lexicon::is_state(TermId term, TermId first, Work& work) {
  const States& list = *lists_[list_of(first, work)];
  return list.ends != 0 && std::ranges::find(list.states, term) != list.states.end();
}

// Whether a term accepts all of a plain text. It is one of the states of `first`, whose states are looked at once.
bool Lexicon::holds_only(TermId text, TermId first, TermId from, Work& work) {
  States& list = *lists_[list_with(from, first, work)];
  const auto found = std::ranges::find(list.states, from);
  if (list.ends == 0) return false;  // too many states, or none that ends
  const auto before = list.after_of.bytes() + held(list.after);
  const std::uint64_t ends = after(text, static_cast<std::uint32_t>(found - list.states.begin()), list, work);
  list_bytes_ += list.after_of.bytes() + held(list.after) - before;
  return (ends & ~list.ends) == 0;
}

// The states of a term; none where there are too many.
std::unique_ptr<Lexicon::States> Lexicon::states_of(TermId first, Work& work) {
  constexpr std::size_t kMostStates = 63;
  auto made = std::make_unique<States>();
  made->states.push_back(first);
  for (std::size_t i = 0; i < made->states.size(); ++i) {
    const Row& r = row(made->states[i], work);
    TermId last = kNever;
    for (TermId next : r.next) {
      if (next == last || next == kNever) continue;
      last = next;
      if (std::ranges::find(made->states, next) != made->states.end()) continue;
      if (made->states.size() == kMostStates) return std::make_unique<States>();
      made->states.push_back(next);
    }
    if (terms_[made->states[i]].nullable) made->ends |= 1ull << i;
    work.spend(128);
  }
  return made;
}

// The states after the texts of a plain term, which begin at one state; kStops where one of them does not go on. Each
// part of the term is looked at once for each state.
std::uint64_t Lexicon::after(TermId term, std::uint32_t state, States& list, Work& work) {
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
      found = t.b == 0 ? 1ull << state : after(t.a, state, list, work);
      for (std::uint64_t before = 0; found != before && found != kStops;) {
        before = found;
        found |= after_all(t.a, before);
      }
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
