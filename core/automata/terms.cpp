#include "automata/terms.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace narrows {

Terms::Terms() {
  intern({.op = Op::never});
  intern({.op = Op::empty, .nullable = true});
  intern({.op = Op::complement, .nullable = true, .plain = true, .a = kNever});
}

TermId Terms::intern(Term term, std::span<const TermId> list) {
  if (term.depth > max_depth_) limit_reached("term_depth", "a regular expression nests too deeply");
  const std::uint64_t head =
      mix(mix(mix(static_cast<std::uint64_t>(term.op), term.a * (list.empty() ? 1u : 0u)), term.b),
          (static_cast<std::uint64_t>(term.c) << 32) | term.d);
  const std::uint64_t hash = hash_words(head, list);
  const TermId found = term_ids_.find(hash, [&](TermId id) {
    const Term& other = terms_[id];
    if (other.op != term.op || other.b != term.b || other.c != term.c || other.d != term.d) return false;
    if (list.empty()) return other.a == term.a;
    return std::ranges::equal(children(other), list);
  });
  if (found != kNone) return found;
  if (!list.empty()) {
    term.a = static_cast<std::uint32_t>(children_.size());
    children_.insert(children_.end(), list.begin(), list.end());
  }
  term.front = front_of(term, list);
  const TermId id = size();
  terms_.push_back(term);
  term_ids_.insert(hash, id);
  return id;
}

std::uint8_t Terms::front_of(const Term& term, std::span<const TermId> list) const {
  std::uint32_t found = 1;
  if (term.op == Op::cat) {
    found = terms_[term.a].front + (terms_[term.a].nullable ? terms_[term.b].front : 0u);
  } else if (term.op == Op::repeat || term.op == Op::complement) {
    found = term.a < terms_.size() ? terms_[term.a].front : 1;
  } else if (!list.empty()) {
    found = std::accumulate(list.begin(), list.end(), 0u,
                            [&](std::uint32_t sum, TermId part) { return std::min(sum + terms_[part].front, 255u); });
  }
  return static_cast<std::uint8_t>(std::min(found, 255u));
}

TermId Terms::set(const ByteSet& bytes) {
  if (bytes.empty()) return kNever;
  std::uint64_t hash = 7;
  for (std::uint64_t word : bytes.words) hash = mix(hash, word);
  std::uint32_t index = set_ids_.find(hash, [&](std::uint32_t i) { return sets_[i] == bytes; });
  if (index == kNone) {
    index = static_cast<std::uint32_t>(sets_.size());
    sets_.push_back(bytes);
    set_ids_.insert(hash, index);
  }
  return intern({.op = Op::set, .a = index});
}

TermId Terms::cat(TermId first, TermId second) {
  if (first == kNever || second == kNever) return kNever;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  const Term &x = terms_[first], &y = terms_[second];
  // The tail is walked by a loop, so only the head adds depth.
  return intern({.op = Op::cat,
                 .nullable = x.nullable && y.nullable,
                 .plain = x.plain && y.plain,
                 .depth = std::max(x.depth + 1, y.depth),
                 .a = first,
                 .b = second});
}

// Flattens, sorts and interns the children of `alt` and `both`; the zeros and units are gone already.
TermId Terms::combine(Op op, std::vector<TermId>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  if (items.size() == 1) return items[0];
  Term term{.op = op, .nullable = op == Op::both, .plain = op == Op::alt};
  for (TermId i : items) {
    const Term& t = terms_[i];
    term.nullable = op == Op::both ? term.nullable && t.nullable : term.nullable || t.nullable;
    term.plain = term.plain && t.plain;
    term.depth = std::max(term.depth, t.depth + 1);
  }
  term.b = static_cast<std::uint32_t>(items.size());
  return intern(term, items);
}

// Whether a counter stands among the first parts of a term, or within one of these.
bool Terms::has_count(TermId id, int depth) const {
  constexpr int kMostHeads = 4;
  const auto counts = [&](TermId part) {
    const Term& t = terms_[part];
    if (t.op == Op::repeat) return t.b > 1 || t.c != kNoMax;
    if (depth == kMostNested || (t.op != Op::cat && t.op != Op::alt)) return false;
    if (t.op == Op::cat) return has_count(part, depth + 1);
    return t.b <= kMostNestedParts &&
           std::ranges::any_of(children(t), [&](TermId child) { return has_count(child, depth + 1); });
  };
  for (int i = 0; i < kMostHeads && terms_[id].op == Op::cat; ++i, id = terms_[id].b)
    if (counts(terms_[id].a)) return true;
  return terms_[id].op != Op::cat && counts(id);
}

// Whether all texts of a term are texts of the other, as its counters say: the same parts stand in both, and each
// counter allows no more. A part that may be left out may be missing. False may be wrong.
bool Terms::counts_less(TermId id, TermId other, int depth) {
  constexpr int kMostParts = 16;
  for (int i = 0; id != other && terms_[other].op == Op::cat; ++i) {
    if (i == kMostParts) return false;
    const Term &x = terms_[id], &y = terms_[other];
    if (x.op == Op::cat && part_counts_less(x.a, y.a, depth)) {
      id = x.b;
    } else if (!terms_[y.a].nullable) {
      return false;
    }
    other = y.b;
  }
  return part_counts_less(id, other, depth);
}

// The same of two parts: counters of the same items, or what is made of such parts. Of an alternation, each alternative
// has one in the other that allows as much.
bool Terms::part_counts_less(TermId id, TermId other, int depth) {
  ++compared_;
  const Term &x = terms_[id], &y = terms_[other];
  if (id == other) return true;
  if (x.op == Op::repeat && y.op == Op::repeat) return x.a == y.a && x.b >= y.b && x.c <= y.c;
  if (depth == kMostNested) return false;
  if (x.op == Op::alt && y.op == Op::alt && x.b <= kMostNestedParts && y.b <= kMostNestedParts)
    return std::ranges::all_of(children(x), [&](TermId one) {
      return std::ranges::any_of(children(y), [&](TermId than) { return part_counts_less(one, than, depth + 1); });
    });
  return x.op == Op::cat && y.op == Op::cat && counts_less(id, other, depth + 1);
}

// In a text where a character may end one item and stand in another, an alternative begins at each of them. All but a
// few of these differ in their counters alone.
void Terms::drop_lesser_counts(std::vector<TermId>& items) {
  constexpr std::size_t kMost = 64;
  if (items.size() < 2 || items.size() > kMost) return;
  std::vector<TermId> counting;
  std::ranges::copy_if(items, std::back_inserter(counting), [&](TermId id) { return has_count(id, 0); });
  if (counting.empty()) return;
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  std::erase_if(items, [&](TermId id) {
    const auto is_more = [&](TermId other) { return other != id && counts_less(id, other, 0); };
    if (!std::ranges::any_of(counting, is_more)) return false;
    std::erase(counting, id);  // of two that hold each other's texts, one is left
    return true;
  });
}

TermId Terms::alt(std::span<const TermId> given) {
  std::vector<TermId> items;
  ByteSet one_byte;
  bool empty = false, nullable = false;
  const auto take = [&](TermId id) {
    const Term& t = terms_[id];
    if (id == kEmpty) {
      empty = true;
    } else if (t.op == Op::set) {
      one_byte |= sets_[t.a];
    } else if (id != kNever) {
      nullable = nullable || t.nullable;
      items.push_back(id);
    }
  };
  for (TermId id : given) {
    if (id == kAll) return kAll;
    if (terms_[id].op == Op::alt) {
      for (TermId child : children(terms_[id])) take(child);
    } else {
      take(id);
    }
  }
  if (!one_byte.empty()) items.push_back(set(one_byte));
  if (empty && !nullable) items.push_back(kEmpty);
  if (items.empty()) return empty ? kEmpty : kNever;
  drop_lesser_counts(items);
  return combine(Op::alt, items);
}

TermId Terms::both(std::span<const TermId> given) {
  std::vector<TermId> items;
  ByteSet one_byte = ByteSet::all();
  bool any_set = false, all_nullable = true, any_empty = false;
  const auto take = [&](TermId id) {
    const Term& t = terms_[id];
    all_nullable = all_nullable && t.nullable;
    if (id == kEmpty) {
      any_empty = true;
    } else if (t.op == Op::set) {
      any_set = true;
      one_byte &= sets_[t.a];
    } else if (id != kAll) {
      items.push_back(id);
    }
  };
  for (TermId id : given) {
    if (id == kNever) return kNever;
    if (terms_[id].op == Op::both) {
      for (TermId child : children(terms_[id])) take(child);
    } else {
      take(id);
    }
  }
  if (any_empty) return all_nullable ? kEmpty : kNever;
  if (any_set) {
    const TermId one = set(one_byte);
    if (one == kNever) return kNever;
    items.push_back(one);
  }
  if (items.empty()) return kAll;
  // What is left out may be all of another part, or have that as an alternative.
  for (TermId id : items) {
    if (terms_[id].op != Op::complement) continue;
    const Term& less = terms_[terms_[id].a];
    const auto is_left_out = [&](TermId other) {
      return other == terms_[id].a || (less.op == Op::alt && std::ranges::binary_search(children(less), other));
    };
    if (std::ranges::any_of(items, is_left_out)) return kNever;
  }
  return combine(Op::both, items);
}

TermId Terms::complement(TermId item) {
  if (item == kNever) return kAll;
  const Term& t = terms_[item];
  if (t.op == Op::complement) return t.a;
  return intern({.op = Op::complement, .nullable = !t.nullable, .plain = false, .depth = t.depth + 1, .a = item});
}

TermId Terms::repeat(TermId item, std::uint32_t min, std::uint32_t max) {
  if (min > max) return kNever;
  if (max == 0 || item == kEmpty) return kEmpty;
  if (item == kNever) return min == 0 ? kEmpty : kNever;
  if (min == 1 && max == 1) return item;
  if (item == kAll) return kAll;
  Term t = terms_[item];
  if (t.nullable) min = 0;
  // (x{i,j}){m,n} has no gaps where i <= 1: it is x{i*m, j*n}.
  if (t.op == Op::repeat && t.b <= 1 && (t.b == 0 || !terms_[t.a].nullable)) {
    const std::uint64_t top = t.c == kNoMax || max == kNoMax
                                  ? kNoMax
                                  : std::min<std::uint64_t>(static_cast<std::uint64_t>(t.c) * max, kNoMax);
    return repeat(t.a, t.b == 0 ? 0 : min, static_cast<std::uint32_t>(top));
  }
  return intern({.op = Op::repeat,
                 .nullable = min == 0 || t.nullable,
                 .plain = t.plain,
                 .depth = t.depth + 1,
                 .a = item,
                 .b = min,
                 .c = max});
}

std::uint32_t Terms::table_of(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets,
                              NameSpelling spelling) {
  std::vector<std::uint32_t> order(offsets.size() - 1);
  std::iota(order.begin(), order.end(), 0u);
  const auto at = [&](std::uint32_t i) { return bytes.subspan(offsets[i], offsets[i + 1] - offsets[i]); };
  std::ranges::sort(order, [&](std::uint32_t i, std::uint32_t j) {
    const auto x = at(i), y = at(j);
    return std::ranges::lexicographical_compare(x, y);
  });
  const auto last = std::unique(order.begin(), order.end(),
                                [&](std::uint32_t i, std::uint32_t j) { return std::ranges::equal(at(i), at(j)); });
  order.erase(last, order.end());

  Table table;
  table.offsets.push_back(0);
  table.spelling = spelling;
  table.hash = mix(11, static_cast<std::uint64_t>(spelling));
  for (std::uint32_t i : order) {
    table.bytes.insert(table.bytes.end(), at(i).begin(), at(i).end());
    table.offsets.push_back(static_cast<std::uint32_t>(table.bytes.size()));
    table.hash = mix(table.hash, table.bytes.size());
  }
  for (std::uint8_t b : table.bytes) table.hash = mix(table.hash, b);
  std::uint32_t index = table_ids_.find(table.hash, [&](std::uint32_t i) {
    return tables_[i].bytes == table.bytes && tables_[i].offsets == table.offsets && tables_[i].spelling == spelling;
  });
  if (index == kNone) {
    index = static_cast<std::uint32_t>(tables_.size());
    table.bytes.shrink_to_fit();
    table.offsets.shrink_to_fit();
    table_bytes_ += held(table.bytes) + held(table.offsets) + 2 * kHeapBlock;
    table_ids_.insert(table.hash, index);
    tables_.push_back(std::move(table));
  }
  return index;
}

TermId Terms::literals(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets) {
  const std::uint32_t table = table_of(bytes, offsets, NameSpelling::bytes);
  return literals_from(table, 0, static_cast<std::uint32_t>(tables_[table].offsets.size() - 1), 0);
}

TermId Terms::literals_from(std::uint32_t table, std::uint32_t low, std::uint32_t high, std::uint32_t depth) {
  if (low == high) return kNever;
  const bool ends = tables_[table].at(low).size() == depth;  // the shortest string sorts first
  if (ends && high == low + 1) return kEmpty;
  return intern({.op = Op::literals, .nullable = ends, .a = table, .b = low, .c = high, .d = depth});
}

// The first string of [from, term.c) whose next byte is at least `value`.
std::uint32_t Terms::bound(const Term& term, std::uint32_t from, int value) const {
  const Table& table = tables_[term.a];
  std::uint32_t low = from, high = term.c;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (table.at(middle)[term.d] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

TermId Terms::literals_after(Term term, std::uint8_t byte) {
  const std::uint32_t ended = tables_[term.a].at(term.b).size() == term.d ? 1 : 0;
  const std::uint32_t from = bound(term, term.b + ended, byte), to = bound(term, from, byte + 1);
  if (from == to) return kNever;
  if (term.op == Op::names) return intern({.op = Op::names, .a = term.a, .b = from, .c = to, .d = term.d + 1});
  return literals_from(term.a, from, to, term.d + 1);
}

TermId Terms::literals_step(const Term& term, std::uint8_t byte, ByteSet& same) {
  const TermId next = literals_after(term, byte);
  ByteSet present;
  if (next != kNever) {
    present.add(byte);
    same &= present;
    return next;
  }
  const Table& table = tables_[term.a];
  for (std::uint32_t i = term.b + (table.at(term.b).size() == term.d ? 1 : 0); i < term.c;) {
    const std::uint8_t b = table.at(i)[term.d];
    present.add(b);
    i = bound(term, i, b + 1);
  }
  same &= ~present;
  return kNever;
}

TermId Terms::derivative(TermId id, std::uint8_t byte, ByteSet& same, Work& work) {
  work.spend(4 + take_compared());
  const Term t = terms_[id];
  switch (t.op) {
    case Op::never:
    case Op::empty:
      return kNever;
    case Op::set: {
      const bool in = sets_[t.a].has(byte);
      same &= in ? sets_[t.a] : ~sets_[t.a];
      return in ? kEmpty : kNever;
    }
    case Op::literals:
      return literals_step(t, byte, same);
    case Op::names:
      return names_step(t, byte, same, work);
    case Op::substrings:
      return substrings_step(t, byte, same, work);
    case Op::repeat:
      return cat(derivative(t.a, byte, same, work),
                 repeat(t.a, t.b == 0 ? 0 : t.b - 1, t.c == kNoMax ? kNoMax : t.c - 1));
    case Op::complement:
      return complement(derivative(t.a, byte, same, work));
    case Op::cat: {
      if (!terms_[t.a].nullable) return cat(derivative(t.a, byte, same, work), t.b);
      std::vector<TermId> readings;
      TermId at = id;
      while (terms_[at].op == Op::cat) {
        const TermId head = terms_[at].a, tail = terms_[at].b;
        readings.push_back(cat(derivative(head, byte, same, work), tail));
        work.spend(2);
        if (!terms_[head].nullable) return alt(readings);
        at = tail;
      }
      readings.push_back(derivative(at, byte, same, work));
      return alt(readings);
    }
    case Op::alt:
    case Op::both: {
      std::vector<TermId> parts;
      parts.reserve(t.b);
      for (std::uint32_t i = 0; i < t.b; ++i) {
        const TermId part = derivative(children_[t.a + i], byte, same, work);
        if (part == kNever && t.op == Op::both) return kNever;
        if (part != kNever) parts.push_back(part);
      }
      return t.op == Op::alt ? alt(parts) : both(parts);
    }
  }
  return kNever;
}

std::size_t Terms::bytes() const {
  return held(terms_) + held(lengths_) + held(ways_) + held(children_) + held(sets_) + table_bytes_ + held(tables_) +
         held(texts_) + escaped_.bytes() + held(endless_) + held(firsts_) + held(first_sets_) + held(clamped_) +
         held(relaxed_) + held(without_bounds_) + held(loosened_) + wider_of_.bytes() + term_ids_.bytes() +
         set_ids_.bytes() + table_ids_.bytes() + text_ids_.bytes();
}

}  // namespace narrows
