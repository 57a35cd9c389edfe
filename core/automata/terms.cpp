#include "automata/terms.hpp"

#include <algorithm>
#include <numeric>

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
  const TermId id = size();
  terms_.push_back(term);
  term_ids_.insert(hash, id);
  return id;
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
  for (TermId id : items)
    if (terms_[id].op == Op::complement && std::ranges::find(items, terms_[id].a) != items.end()) return kNever;
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

TermId Terms::literals_step(const Term& term, std::uint8_t byte, ByteSet& same) {
  const Table& table = tables_[term.a];
  const std::uint32_t depth = term.d;
  std::uint32_t low = term.b + (table.at(term.b).size() == depth ? 1 : 0);
  const auto next_at = [&](std::uint32_t i) { return table.at(i)[depth]; };
  const auto bound = [&](std::uint32_t from, int value) {  // first string whose next byte is >= value
    std::uint32_t a = from, b = term.c;
    while (a < b) {
      const std::uint32_t m = a + (b - a) / 2;
      if (next_at(m) < value) {
        a = m + 1;
      } else {
        b = m;
      }
    }
    return a;
  };
  const std::uint32_t from = bound(low, byte), to = bound(from, byte + 1);
  if (from < to) {
    ByteSet only;
    only.add(byte);
    same &= only;
    const std::uint32_t table_index = term.a;  // `term` may move when the next one is interned
    if (term.op == Op::names) return intern({.op = Op::names, .a = table_index, .b = from, .c = to, .d = depth + 1});
    return literals_from(table_index, from, to, depth + 1);
  }
  ByteSet present;
  while (low < term.c) {
    const std::uint8_t b = next_at(low);
    present.add(b);
    low = bound(low, b + 1);
  }
  same &= ~present;
  return kNever;
}

TermId Terms::derivative(TermId id, std::uint8_t byte, ByteSet& same, Work& work) {
  work.spend(4);  // a unit is some 5 ns
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
    case Op::repeat:
      return cat(derivative(t.a, byte, same, work),
                 repeat(t.a, t.b == 0 ? 0 : t.b - 1, t.c == kNoMax ? kNoMax : t.c - 1));
    case Op::complement:
      return complement(derivative(t.a, byte, same, work));
    case Op::cat: {
      std::vector<TermId> readings;
      TermId at = id;
      while (terms_[at].op == Op::cat) {
        const TermId head = terms_[at].a, tail = terms_[at].b;
        readings.push_back(cat(derivative(head, byte, same, work), tail));
        work.spend(2);
        if (!terms_[head].nullable) return readings.size() == 1 ? readings[0] : alt(readings);
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

// The spine of a concatenation is walked by a loop; only heads and alternatives recurse, bounded by depth.
TermId Terms::clamp(TermId id, std::uint32_t length) {
  if (clamp_length_ != length) {
    clamped_.clear();
    clamp_length_ = length;
  }
  if (!terms_[id].plain) return id;
  const auto known = [&](TermId t) { return t < clamped_.size() ? clamped_[t] : kNone; };
  const auto remember = [&](TermId from, TermId to) {
    if (clamped_.size() < terms_.size()) clamped_.resize(terms_.size(), kNone);
    clamped_[from] = to;
  };
  std::vector<TermId> spine;
  TermId at = id;
  while (known(at) == kNone && terms_[at].op == Op::cat) {
    spine.push_back(at);
    at = terms_[at].b;
  }
  TermId result = known(at);
  if (result == kNone) {
    const Term t = terms_[at];
    result = at;
    if (t.op == Op::repeat) {
      const TermId item = clamp(t.a, length);
      result = repeat(item, std::min(t.b, length + 1), t.c > length ? kNoMax : t.c);
    } else if (t.op == Op::alt) {
      std::vector<TermId> parts;
      for (std::uint32_t i = 0; i < t.b; ++i) parts.push_back(clamp(children_[t.a + i], length));
      result = alt(parts);
    }
    remember(at, result);
  }
  while (!spine.empty()) {
    const TermId head = terms_[spine.back()].a;
    result = cat(clamp(head, length), result);
    remember(spine.back(), result);
    spine.pop_back();
  }
  return result;
}

TermId Terms::relax(TermId id) {
  constexpr std::uint32_t kGreat = 16;
  const auto known = [&](TermId t) { return t < relaxed_.size() ? relaxed_[t] : kNone; };
  const auto remember = [&](TermId from, TermId to) {
    if (relaxed_.size() < terms_.size()) relaxed_.resize(terms_.size(), kNone);
    relaxed_[from] = to;
  };
  std::vector<TermId> spine;
  TermId at = id;
  while (known(at) == kNone && terms_[at].op == Op::cat) {
    spine.push_back(at);
    at = terms_[at].b;
  }
  TermId result = known(at);
  if (result == kNone) {
    const Term t = terms_[at];
    result = at;
    if (t.op == Op::repeat) {
      const bool is_great = t.b > kGreat || (t.c != kNoMax && t.c > kGreat);
      const TermId item = relax(t.a);
      result = is_great ? repeat(item, t.b > kGreat ? 1 : t.b, kNoMax) : repeat(item, t.b, t.c);
    } else if (t.op == Op::alt || t.op == Op::both) {
      std::vector<TermId> made;
      for (std::uint32_t i = 0; i < t.b; ++i) made.push_back(relax(children_[t.a + i]));
      result = t.op == Op::alt ? alt(made) : both(made);
    }
    remember(at, result);
  }
  while (!spine.empty()) {
    const TermId head = terms_[spine.back()].a;
    result = cat(relax(head), result);
    remember(spine.back(), result);
    spine.pop_back();
  }
  return result;
}

bool Terms::endless(TermId id, Work& work) {
  const auto known = [&](TermId t) { return t < endless_.size() ? endless_[t] : 0; };
  const auto remember = [&](TermId t, bool is_endless) {
    if (endless_.size() < terms_.size()) endless_.resize(terms_.size());
    endless_[t] = is_endless ? 2 : 1;
  };
  const auto accepts_some = [&](TermId t) { return terms_[t].plain || endless(t, work); };
  std::vector<TermId> spine;
  TermId at = id;
  for (; known(at) == 0 && terms_[at].op == Op::cat; at = terms_[at].b) spine.push_back(at);
  work.spend(2 + 2 * spine.size());
  if (known(at) == 0) {
    const Term& t = terms_[at];
    const auto parts = t.op == Op::alt || t.op == Op::both ? children(t) : std::span<const TermId>();
    bool found = false;
    if (t.op == Op::repeat) {
      found = (t.c == kNoMax && t.plain) || endless(t.a, work);
    } else if (t.op == Op::alt) {
      found = std::ranges::any_of(parts, [&](TermId part) { return endless(part, work); });
    } else if (t.op == Op::complement) {
      found = terms_[t.a].plain && !endless(t.a, work);
    } else if (t.op == Op::both) {  // one part, and others that take away finitely many texts
      std::size_t others = 0;
      for (TermId part : parts)
        if (terms_[part].op != Op::complement || !endless(part, work)) ++others;
      found = others <= 1 && std::ranges::all_of(parts, [&](TermId part) { return endless(part, work); });
      work.spend(2 * parts.size());
    }
    remember(at, found);
  }
  for (; !spine.empty(); spine.pop_back()) {
    const TermId head = terms_[spine.back()].a, tail = terms_[spine.back()].b;
    remember(spine.back(), (endless(head, work) && accepts_some(tail)) || (endless(tail, work) && accepts_some(head)));
  }
  return known(id) == 2;
}

std::vector<std::span<const std::uint8_t>> Terms::options(TermId id) const {
  std::vector<std::span<const std::uint8_t>> found;
  const Term& t = terms_[id];
  if (t.op == Op::literals)
    for (std::uint32_t i = t.b; i < t.c; ++i) found.push_back(tables_[t.a].at(i).subspan(t.d));
  return found;
}

bool Terms::outnumbers(TermId id) const {
  const Term& both = terms_[id];
  if (both.op != Op::both || both.b != 2) return false;
  const auto parts = children(both);
  for (std::size_t k = 0; k < 2; ++k) {
    const Term &list = terms_[parts[k]], &other = terms_[parts[1 - k]];
    if (list.op != Op::literals || other.op != Op::complement) continue;
    const Term* less = &terms_[other.a];
    if (less->op == Op::cat) less = &terms_[less->b];  // after the quote
    if (less->op != Op::literals && less->op != Op::names) continue;
    // A list has a string in two spellings at most.
    return list.c - list.b > 2 * (less->c - less->b);
  }
  return false;
}

TermId Terms::wider(TermId id) {
  const Term t = terms_[id];
  if (t.op == Op::both) {
    std::vector<TermId> kept;
    for (std::uint32_t i = 0; i < t.b; ++i)
      if (const TermId child = children_[t.a + i]; terms_[child].op != Op::complement) kept.push_back(child);
    return kept.empty() || kept.size() == t.b ? kNone : both(kept);
  }
  if (!t.plain) return kNone;
  std::vector<TermId> heads;  // a character that has been begun stands before the counter
  for (TermId at = id; terms_[at].op == Op::cat && heads.size() < 4; at = terms_[at].b) {
    const Term counter = terms_[terms_[at].a];
    if (counter.op == Op::repeat && (counter.b > 0 || counter.c != kNoMax) && counter.c > 4 &&
        !terms_[counter.a].nullable && !terms_[terms_[at].b].nullable) {
      TermId made = cat(repeat(counter.a, 0, kNoMax), terms_[at].b);
      for (; !heads.empty(); heads.pop_back()) made = cat(heads.back(), made);
      return made;
    }
    heads.push_back(terms_[at].a);
  }
  return kNone;
}

Terms::Count Terms::count_apart(TermId id, TermId wider) const {
  TermId rest = kNever;
  while (terms_[id].op == Op::cat && terms_[wider].op == Op::cat) {
    const Term &t = terms_[id], &w = terms_[wider];
    if (t.a == w.a) {
      id = t.b;
      wider = w.b;
    } else {
      if (t.b != w.b || terms_[t.b].nullable) return {};
      rest = t.b;
      id = t.a;
      wider = w.a;
    }
  }
  const Term &t = terms_[id], &w = terms_[wider];
  const bool found =
      t.op == Op::repeat && w.op == Op::repeat && t.a == w.a && w.b == 0 && w.c == kNoMax && t.plain && rest != kNever;
  return {found, t.b == 0, t.c, rest};
}

std::uint64_t Terms::shortest_length(TermId id) {
  constexpr std::uint64_t most = 1ull << 40;  // more is out of reach
  if (lengths_.size() < terms_.size()) lengths_.resize(terms_.size(), ~0ull);
  if (lengths_[id] != ~0ull) return lengths_[id];
  const Term& t = terms_[id];
  std::uint64_t length = 0;
  switch (t.op) {
    case Op::never:
      length = most;
      break;
    case Op::set:
      length = 1;
      break;
    case Op::literals: {
      length = most;
      for (std::uint32_t i = t.b; i < t.c; ++i)
        length = std::min<std::uint64_t>(length, tables_[t.a].at(i).size() - t.d);
      break;
    }
    case Op::names:  // only ever what is left out
      length = 1;
      break;
    case Op::repeat:
      length = t.b == 0 ? 0 : shortest_length(t.a) > most / t.b ? most : shortest_length(t.a) * t.b;
      break;
    case Op::alt:
      length = most;
      for (TermId child : children(t)) length = std::min(length, shortest_length(child));
      break;
    case Op::cat: {
      TermId at = id;
      for (; terms_[at].op == Op::cat; at = terms_[at].b) length += shortest_length(terms_[at].a);
      length += shortest_length(at);
      break;
    }
    case Op::both:
      for (TermId child : children(t)) length = std::max(length, shortest_length(child));
      break;
    case Op::complement:
      length = t.nullable ? 0 : 1;
      break;
    case Op::empty:
      break;
  }
  return lengths_[id] = std::min(length, most);
}

bool Terms::shortest(TermId id, std::vector<std::uint8_t>& out, Work& work) {
  if (!terms_[id].plain || id == kNever) return false;
  std::vector<TermId> todo{id};
  while (!todo.empty()) {
    const TermId at = todo.back();
    todo.pop_back();
    work.spend(4);
    const Term& t = terms_[at];
    switch (t.op) {
      case Op::set: {
        const ByteSet& bytes = sets_[t.a];
        std::uint8_t pick = bytes.first();
        for (int b = 0x20; b < 0x7f; ++b)
          if (bytes.has(static_cast<std::uint8_t>(b))) {
            pick = static_cast<std::uint8_t>(b);
            break;
          }
        out.push_back(pick);
        break;
      }
      case Op::literals: {
        std::uint32_t best = t.b;
        for (std::uint32_t i = t.b; i < t.c; ++i)
          if (tables_[t.a].at(i).size() < tables_[t.a].at(best).size()) best = i;
        const auto rest = tables_[t.a].at(best).subspan(t.d);
        work.spend(rest.size());
        out.insert(out.end(), rest.begin(), rest.end());
        break;
      }
      case Op::repeat:
        work.spend(t.b);
        todo.insert(todo.end(), t.b, t.a);
        break;
      case Op::alt: {
        TermId best = kNever;
        std::uint64_t length = ~0ull;
        for (TermId child : children(t))
          if (const std::uint64_t n = shortest_length(child); n < length) {
            length = n;
            best = child;
          }
        todo.push_back(best);
        break;
      }
      case Op::cat:
        todo.push_back(t.b);
        todo.push_back(t.a);
        break;
      case Op::never:
      case Op::empty:
      case Op::both:
      case Op::complement:
      case Op::names:
        break;
    }
  }
  return true;
}

std::size_t Terms::bytes() const {
  return held(terms_) + held(lengths_) + held(children_) + held(sets_) + table_bytes_ + held(tables_) +
         escaped_.bytes() + held(endless_) + held(clamped_) + held(relaxed_) + term_ids_.bytes() + set_ids_.bytes() +
         table_ids_.bytes();
}

}  // namespace narrows
