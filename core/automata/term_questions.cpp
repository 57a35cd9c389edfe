// What a term's texts are like: whether they are endless, what they begin with, and a shortest one.
#include <algorithm>

#include "automata/terms.hpp"

namespace narrows {

std::vector<TermId> Terms::beginnings(TermId id) const {
  constexpr std::size_t kMost = 64;
  std::vector<TermId> found{id};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Term& t = terms_[found[i]];
    const auto more = t.op == Op::alt   ? children(t)
                      : t.op == Op::cat ? std::span<const TermId>(&t.a, 1)
                                        : std::span<const TermId>();
    if (found.size() + more.size() > kMost) break;
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
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

// The spine of a concatenation is walked by a loop; only heads and alternatives recurse, bounded by depth.
ByteSet Terms::first(TermId id, Work& work) {
  if (id < firsts_.size() && firsts_[id] != 0) return first_sets_[firsts_[id] - 1];
  ByteSet found;
  TermId at = id;
  for (; terms_[at].op == Op::cat; at = terms_[at].b) {
    found |= first(terms_[at].a, work);
    work.spend(2);
    if (!terms_[terms_[at].a].nullable) break;
  }
  const Term t = terms_[at];
  if (t.op == Op::set) {
    found |= sets_[t.a];
  } else if (at == kAll) {
    found = ByteSet::all();
  } else if (t.op == Op::repeat) {
    found |= first(t.a, work);
  } else if (t.op == Op::alt) {
    for (std::uint32_t i = 0; i < t.b; ++i) found |= first(children_[t.a + i], work);
  } else if (t.op == Op::names) {
    found |= names_first(t, work);
  } else if (t.op == Op::literals || t.op == Op::substrings) {
    for (ByteSet open = ByteSet::all(); !open.empty();) {
      ByteSet same = open;
      if (derivative(at, open.first(), same, work) != kNever) found |= same;
      open &= ~same;
    }
  }
  work.spend(4);
  if (firsts_.size() < terms_.size()) firsts_.resize(terms_.size());
  first_sets_.push_back(found);
  firsts_[id] = static_cast<std::uint32_t>(first_sets_.size());
  return found;
}

ByteSet Terms::all_bytes(TermId id, Work& work) const {
  constexpr std::size_t kMost = 2'000;
  ByteSet found;
  std::vector<TermId> open{id};
  std::size_t seen = 0;
  for (; !open.empty() && seen < kMost; ++seen) {
    const TermId at = open.back();
    const Term& t = terms_[at];
    open.pop_back();
    if (t.op == Op::set) {
      found |= sets_[t.a];
    } else if (t.op == Op::cat) {
      open.push_back(t.b);
      open.push_back(t.a);
    } else if (t.op == Op::repeat) {
      open.push_back(t.a);
    } else if (t.op == Op::alt || t.op == Op::both) {
      open.insert(open.end(), children(t).begin(), children(t).end());
    } else if (t.op == Op::literals) {
      const auto texts = options(at);
      for (const auto& text : texts)
        for (std::uint8_t byte : text) found.add(byte);
      seen += texts.size();
    } else if (t.op != Op::never && t.op != Op::empty) {
      found = ByteSet::all();
    }
  }
  work.spend(4 * seen);
  return open.empty() ? found : ByteSet::all();
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

std::uint64_t Terms::shortest_length(TermId id) {
  constexpr std::uint64_t most = kOutOfReach;
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
    case Op::substrings:
      length = text_of(t).way_to_end(place_of(t)).size();
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

// What is left of a text is one of a term's partial derivatives, or several of them. Each is found below a part of the
// term, before what follows that part.
std::uint64_t Terms::longest_way(TermId id) {
  if (ways_.size() < terms_.size()) ways_.resize(terms_.size(), ~0ull);
  if (ways_[id] != ~0ull) return ways_[id];
  const Term& t = terms_[id];
  std::uint64_t way = 0;
  switch (t.op) {
    case Op::set:
      way = 1;
      break;
    case Op::literals:
      for (std::uint32_t i = t.b; i < t.c; ++i) way = std::max<std::uint64_t>(way, tables_[t.a].at(i).size() - t.d);
      break;
    case Op::substrings:
      way = text_of(t).longest_way();
      break;
    case Op::repeat: {
      const std::uint64_t each = shortest_length(t.a), more = t.b == 0 ? 0 : t.b - 1;
      way = more != 0 && each > kOutOfReach / more ? kOutOfReach : longest_way(t.a) + more * each;
      break;
    }
    case Op::alt:
      for (TermId child : children(t)) way = std::max(way, longest_way(child));
      break;
    case Op::cat: {
      TermId at = id;
      for (; terms_[at].op == Op::cat; at = terms_[at].b)
        way = std::max(way, longest_way(terms_[at].a) + shortest_length(terms_[at].b));
      way = std::max(way, longest_way(at));
      break;
    }
    case Op::never:
    case Op::empty:
      break;
    case Op::both:
    case Op::complement:
    case Op::names:
      way = kOutOfReach;
      break;
  }
  return ways_[id] = std::min(way, kOutOfReach);
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
      case Op::substrings: {
        const auto way = text_of(t).way_to_end(place_of(t));
        work.spend(way.size());
        out.insert(out.end(), way.begin(), way.end());
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

}  // namespace narrows
