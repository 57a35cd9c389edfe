// Simpler forms of a term: without counts that no token can tell apart, and wider ones, which accept at least as much.
#include <algorithm>
#include <functional>

#include "automata/terms.hpp"

namespace narrows {

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
  const auto relaxed = [this](const Term& t, TermId item) {
    const bool is_great = t.b > kGreat || (t.c != kNoMax && t.c > kGreat);
    return Recounted{is_great ? repeat(item, t.b > kGreat ? 1 : t.b, kNoMax) : repeat(item, t.b, t.c)};
  };
  return recount(id, relaxed_, relaxed).term;
}

// Most parts that end with a counter are a text of some length.
TermId Terms::loosen(TermId id) {
  if (id < loosened_.size() && loosened_[id] != kNone) return loosened_[id];
  const Term t = terms_[id];
  TermId made = kNone;
  if (t.op == Op::cat && terms_[t.a].op == Op::both) {
    made = cat(loosen(t.a), relax(t.b));
  } else if (t.op == Op::both) {
    std::vector<TermId> parts(children(t).begin(), children(t).end());
    for (TermId& part : parts) part = relax(without_last_count(part));
    made = both(parts);
  } else {
    made = relax(id);
  }
  if (loosened_.size() < terms_.size()) loosened_.resize(terms_.size(), kNone);
  return loosened_[id] = made;
}

// A counter, perhaps after the rest of an item, without its bounds; any other term as it is.
TermId Terms::without_last_count(TermId id) {
  constexpr std::size_t kMostHeads = 4;
  std::vector<TermId> heads;
  TermId last = id;
  for (; terms_[last].op == Op::cat && heads.size() < kMostHeads; last = terms_[last].b)
    heads.push_back(terms_[last].a);
  const Term count = terms_[last];
  const bool is_bounded = count.b > 1 || (count.c != kNoMax && count.c > 1);
  if (count.op != Op::repeat || !count.plain || !is_bounded) return id;
  TermId made = repeat(count.a, std::min(count.b, 1u), kNoMax);
  for (; !heads.empty(); heads.pop_back()) made = cat(heads.back(), made);
  return made;
}

Terms::Recounted Terms::without_bounds(TermId id) {
  constexpr std::uint64_t kLeastRoom = 16;
  const auto unbounded = [this](const Term& t, TermId item) {
    const std::uint64_t room = t.c == kNoMax ? 0 : std::min(t.c * shortest_length(t.a), std::uint64_t{kNone});
    if (room < kLeastRoom || t.b == t.c) return Recounted{repeat(item, t.b, t.c)};
    return Recounted{repeat(item, t.b, kNoMax), static_cast<std::uint32_t>(room)};
  };
  return recount(id, without_bounds_, unbounded);
}

// The term with other bounds of its counters, as `bounded` has them, but for those in a complement.
Terms::Recounted Terms::recount(TermId id, std::vector<Recounted>& found,
                                const std::function<Recounted(const Term&, TermId item)>& bounded) {
  const auto known = [&](TermId t) { return t < found.size() ? found[t] : Recounted{}; };
  const auto remember = [&](TermId from, const Recounted& to) {
    if (found.size() < terms_.size()) found.resize(terms_.size());
    found[from] = to;
  };
  std::vector<TermId> spine;
  TermId at = id;
  while (known(at).term == kNone && terms_[at].op == Op::cat) {
    spine.push_back(at);
    at = terms_[at].b;
  }
  Recounted result = known(at);
  if (result.term == kNone) {
    const Term t = terms_[at];
    result = {at};
    if (t.op == Op::repeat) {
      const Recounted item = recount(t.a, found, bounded);
      result = bounded(t, item.term);
      result.room = std::min(result.room, item.room);
    } else if (t.op == Op::alt || t.op == Op::both) {
      std::vector<TermId> made;
      for (std::uint32_t i = 0; i < t.b; ++i) {
        const Recounted part = recount(children_[t.a + i], found, bounded);
        made.push_back(part.term);
        result.room = std::min(result.room, part.room);
      }
      result.term = t.op == Op::alt ? alt(made) : both(made);
    }
    remember(at, result);
  }
  while (!spine.empty()) {
    const Recounted head = recount(terms_[spine.back()].a, found, bounded);
    result = {cat(head.term, result.term), std::min(head.room, result.room)};
    remember(spine.back(), result);
    spine.pop_back();
  }
  return result;
}

// The part of a concatenation or an alternation that can be made wider, and the rest as it is. It is kept: a part that
// stands in many others would be asked for by each way that leads to it.
TermId Terms::wider_part(TermId id) {
  TermId made = wider_of_.find(id, 0);
  if (made == kNone) {
    made = make_wider_part(id);
    wider_of_.insert(id, 0, made == kNone ? kNever : made);
  }
  return made == kNever ? kNone : made;
}

TermId Terms::make_wider_part(TermId id) {
  const Term t = terms_[id];
  if (t.op == Op::alt) {
    std::vector<TermId> made(children(t).begin(), children(t).end());
    bool is_wider = false;
    for (TermId& part : made) {
      const TermId more = terms_[part].plain ? kNone : wider(part);
      if (more == kNone) continue;
      part = more;
      is_wider = true;
    }
    return is_wider ? alt(made) : kNone;
  }
  std::vector<TermId> heads;
  TermId at = id;
  for (; terms_[at].op == Op::cat && terms_[terms_[at].a].plain; at = terms_[at].b) heads.push_back(terms_[at].a);
  TermId made = kNone;
  if (terms_[at].op == Op::cat) {
    const TermId tail = terms_[at].b, more = wider(terms_[at].a);
    if (more != kNone) made = cat(more, tail);
  } else if (at != id) {
    made = wider(at);
  }
  for (; made != kNone && !heads.empty(); heads.pop_back()) made = cat(heads.back(), made);
  return made;
}

TermId Terms::wider(TermId id) {
  const Term t = terms_[id];
  if (t.op == Op::both) {
    std::vector<TermId> kept;
    for (std::uint32_t i = 0; i < t.b; ++i)
      if (const TermId child = children_[t.a + i]; terms_[child].op != Op::complement) kept.push_back(child);
    return kept.empty() || kept.size() == t.b ? kNone : both(kept);
  }
  if (!t.plain) return t.op == Op::cat || t.op == Op::alt ? wider_part(id) : kNone;
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

}  // namespace narrows
