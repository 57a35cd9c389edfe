// How many items the texts of one part of an intersection have: characters, mostly. A text that needs more of them than
// a counter beside it allows cannot be ended, nor one that has not enough. To find that out by a search, all texts of
// that length would be tried.
//
// The counter is an automaton of few states: between two items, and within one. Each part of a term is looked at once
// for each of these states. Counters multiply, so nothing is unrolled.
#include <algorithm>
#include <optional>
#include <utility>

#include "automata/lexicon.hpp"

namespace narrows {

namespace {
constexpr std::uint32_t kEndless = kNone;

std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{a} + b, kEndless));
}
std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{a} * b, kEndless));
}
}  // namespace

// Whether a part of the intersection has no text with as many items as one of its counters asks for. True is always
// right.
bool Lexicon::has_other_lengths(TermId term, Work& work) {
  constexpr std::size_t kMostParts = 8;
  const TermId both = intersection(term).first;
  if (both == kNever || terms_[both].b > kMostParts) return false;
  const std::vector<TermId> parts(terms_.parts(both).begin(), terms_.parts(both).end());
  for (TermId counter : parts) {
    const Bound bound = bound_of(counter, true);
    if (bound.any == kNone || terms_[bound.items].op != Op::repeat) continue;
    if (!is_prefix_free(terms_[bound.items].a, work) || !is_state(bound.any, bound.items, work)) continue;
    work.spend(8 * parts.size());
    for (TermId part : parts) {
      if (part == counter) continue;
      const Reaches reached = items_in(part, {bound.any, bound.items}, work);
      if (!reached.is_known) continue;
      const auto fits = [&](const Reach& one) {
        return terms_[one.to].nullable && one.least <= bound.max && one.most >= bound.min;
      };
      if (std::ranges::none_of(reached.all, fits)) return true;
    }
  }
  return false;
}

// The most items that have to begin to end a text of a plain term, wherever in it that is (Terms::longest_way, which
// counts bytes: an item may have twelve). The text and the counter begin together, between two items; within one, the
// bytes are counted.
std::uint64_t Lexicon::longest_way_in(TermId term, const Bound& counter, Work& work) {
  const std::uint64_t bytes = terms_.longest_way(term);
  const Term& items = terms_[counter.items];
  if (counter.any != counter.items || items.op != Op::repeat || !items.plain || !is_prefix_free(items.a, work))
    return bytes;
  return std::min(bytes, way_in(term, counter.items, work));
}

// The same between two items. Where a part of the term ends within an item, the bytes are counted.
std::uint64_t Lexicon::way_in(TermId term, TermId items, Work& work) {
  if (const std::uint32_t known = ways_in_.find(term, items); known != kNone) return known;
  work.spend(8);
  // None where it may end within an item.
  const auto whole = [&](TermId part) -> std::optional<Reach> {
    const Reaches reached = items_in(part, {items, items}, work);
    if (!reached.is_known || reached.all.size() != 1 || reached.all[0].to != items) return std::nullopt;
    return reached.all[0];
  };
  std::uint64_t way = terms_.longest_way(term);
  const auto lower = [&](std::uint64_t found) { way = std::min(way, found); };
  if (const auto all = whole(term)) {
    const Term t = terms_[term];
    if (t.op == Op::alt) {
      const std::vector<TermId> parts(terms_.parts(term).begin(), terms_.parts(term).end());
      std::uint64_t longest = 0;
      for (TermId part : parts) longest = std::max(longest, way_in(part, items, work));
      lower(longest);
    } else if (t.op == Op::repeat) {
      const std::uint64_t each = whole(t.a).value_or(Reach{items, kEndless, kEndless}).least;
      lower(way_in(t.a, items, work) + (t.b == 0 ? 0 : t.b - 1) * each);
    } else if (t.op == Op::cat && all->most > 1) {
      std::vector<TermId> parts;
      TermId at = term;
      for (; terms_[at].op == Op::cat; at = terms_[at].b) parts.push_back(terms_[at].a);
      parts.push_back(at);
      std::uint64_t longest = 0, after = 0;
      for (std::size_t k = parts.size(); k-- > 0 && longest < kEndless;) {
        const auto one = whole(parts[k]);
        longest = one ? std::max(longest, way_in(parts[k], items, work) + after) : kEndless;
        after += one ? one->least : 0;
        work.spend(8);
      }
      lower(longest);
    } else {
      lower(all->most);
    }
  }
  const auto found = static_cast<std::uint32_t>(std::min<std::uint64_t>(way, kEndless - 1));
  ways_in_.insert(term, items, found);
  return found;
}

// Where the texts of a term lead that are also texts of the counter, and how many items begin in them. `state`:
// what is left of the counter's items, and the same between two of them.
Lexicon::Reaches Lexicon::items_in(TermId term, const CounterState& state, Work& work) {
  if (const std::uint32_t known = reaches_of_.find(term, state.now); known != kNone) return reaches_[known];
  work.spend(8);
  Reaches found;
  const auto add = [&](const Reach& one) {
    const auto same = std::ranges::find(found.all, one.to, &Reach::to);
    if (same == found.all.end()) {
      found.all.push_back(one);
    } else {
      *same = {one.to, std::min(same->least, one.least), std::max(same->most, one.most)};
    }
  };
  // What comes after one of the ways so far.
  const auto add_after = [&](const Reach& before, const Reaches& after) {
    found.is_known = found.is_known && after.is_known;
    for (const Reach& one : after.all) add({one.to, sum(before.least, one.least), sum(before.most, one.most)});
  };
  const auto begun = [&](TermId from) { return from == state.between ? 1u : 0u; };
  const Term t = terms_[term];
  switch (t.op) {
    case Op::empty:
      add({state.now, 0, 0});
      break;
    case Op::set: {
      const auto& next = raw_row(state.now, work).next;
      work.spend(64);
      terms_.bytes_of(term).for_each([&](std::uint8_t b) {
        if (next[b] != kNever) add({next[b], begun(state.now), begun(state.now)});
      });
      break;
    }
    case Op::literals:
      for (const auto& option : terms_.options(term)) {
        Reach at{state.now, 0, 0};
        for (std::size_t i = 0; i < option.size() && at.to != kNever; ++i) {
          at.least = at.most = at.least + begun(at.to);
          at.to = raw_row(at.to, work).next[option[i]];
        }
        if (at.to != kNever) add(at);
        work.spend(option.size());
      }
      break;
    case Op::alt: {
      const std::vector<TermId> parts(terms_.parts(term).begin(), terms_.parts(term).end());
      for (TermId part : parts) add_after({state.now, 0, 0}, items_in(part, state, work));
      work.spend(8 * parts.size());
      break;
    }
    case Op::both: {  // its texts are texts of each part
      const std::vector<TermId> parts(terms_.parts(term).begin(), terms_.parts(term).end());
      found.is_known = false;
      for (TermId part : parts) {
        const Reaches one = items_in(part, state, work);
        if (!one.is_known) continue;
        if (!std::exchange(found.is_known, true)) {
          found.all = one.all;
          continue;
        }
        std::erase_if(found.all, [&](Reach& way) {
          const auto same = std::ranges::find(one.all, way.to, &Reach::to);
          if (same == one.all.end()) return true;
          way = {way.to, std::max(way.least, same->least), std::min(way.most, same->most)};
          return way.least > way.most;
        });
      }
      break;
    }
    case Op::repeat: {
      const Reaches each = items_in(t.a, state, work);
      const auto is_back = [&](const Reach& one) { return one.to == state.now; };
      found.is_known = each.is_known && std::ranges::all_of(each.all, is_back);
      if (!found.is_known) break;
      if (!each.all.empty())
        add({state.now, product(t.b, each.all[0].least), each.all[0].most == 0 ? 0 : product(t.c, each.all[0].most)});
      else if (t.b == 0)
        add({state.now, 0, 0});
      break;
    }
    case Op::cat: {  // a loop, for a tail may be long
      std::vector<Reach> ways{{state.now, 0, 0}};
      TermId at = term;
      for (; terms_[at].op == Op::cat && found.is_known && !ways.empty(); at = terms_[at].b) {
        for (const Reach& way : ways) add_after(way, items_in(terms_[at].a, {way.to, state.between}, work));
        work.spend(8 * ways.size());
        ways = std::exchange(found.all, {});
      }
      for (const Reach& way : ways)
        if (found.is_known) add_after(way, items_in(at, {way.to, state.between}, work));
      break;
    }
    default:
      found.is_known = t.op == Op::never;
      break;
  }
  reaches_bytes_ += sizeof(Reaches) + kHeapBlock + held(found.all);
  reaches_of_.insert(term, state.now, static_cast<std::uint32_t>(reaches_.size()));
  reaches_.push_back(found);
  return found;
}

}  // namespace narrows
