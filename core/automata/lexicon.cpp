#include "automata/lexicon.hpp"

#include <algorithm>
#include <utility>

namespace narrows {
namespace {
// Sets and lists that may come first: from so many on, a row is made from the rows of the parts.
constexpr std::uint8_t kGreatFront = 80, kGreatFrontOfRules = 32;
}  // namespace

Lexicon::Lexicon(std::shared_ptr<const Trie> trie, std::uint32_t mask_words, std::uint64_t most_bytes)
    : trie_(std::move(trie)), mask_words_(mask_words), most_bytes_(most_bytes) {}

void Lexicon::check_memory() const {
  if (bytes() > most_bytes_) limit_reached("constraint_bytes", "one call needs more memory than the limit allows");
}

Lexicon::Row& Lexicon::raw_row(TermId term, Work& work) {
  if (has_row(term)) return *rows_[row_of_[term]];
  work.spend(48);
  check_memory();
  auto made = std::make_unique<Row>();
  made->next.fill(kNever);
  if (!row_of_parts(term, *made, work)) row_of_derivatives(term, *made, work);
  if (row_of_.size() <= term) row_of_.resize(terms_.size(), kNone);
  row_of_[term] = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back(std::move(made));
  return *rows_.back();
}

// What is known of groups comes from the sets of bytes that go together, so that no byte is looked at twice.
void Lexicon::row_of_derivatives(TermId term, Row& made, Work& work) {
  struct Class {
    TermId next;
    Groups groups;
  };
  std::vector<Class> classes;
  std::array<std::uint8_t, 64> missing = kGroupSizes;
  Groups whole = 0;  // no byte of these groups is missing
  for (ByteSet open = ByteSet::all(); !open.empty();) {
    ByteSet same = open;
    const TermId next = terms_.derivative(term, open.first(), same, work);
    open &= ~same;
    if (next == kNever) continue;
    auto one = std::ranges::find(classes, next, &Class::next);
    if (one == classes.end()) one = classes.insert(one, {next, 0});
    same.for_each([&](std::uint8_t b) {
      made.next[b] = next;
      one->groups |= group_of(b);
      if (--missing[kByteGroups[b]] == 0) whole |= group_of(b);
    });
    made.first |= same;
  }
  if (!terms_[term].plain) return;  // it is not known yet which of these are alive
  for (const Class& one : classes) {
    made.uneven |= made.first_groups & one.groups;
    made.first_groups |= one.groups;
  }
  made.uneven |= made.first_groups & ~whole;
  for (const Class& one : classes)
    if (one.next == term) made.loops = one.groups & ~made.uneven;
  made.final = true;
}

// The parts that a term goes on as, and what follows each of them.
struct Lexicon::Parts {
  Op op = Op::never;
  std::vector<TermId> all;
  std::vector<TermId> after;  // of a concatenation
};

// The parts from whose rows the row of a term is made; none where it is made from derivatives.
//
// These are intersections, complements and what begins with one: their parts come in many combinations. And what begins
// with many alternatives, for its derivatives would look at all of them again. Where a great counter is beside others,
// its states come once.
Lexicon::Parts Lexicon::parts_of(TermId term) {
  const Term& t = terms_[term];
  const bool is_great = t.front >= (intersection(term).first == kNever ? kGreatFront : kGreatFrontOfRules);
  if (!is_great && (t.plain || terms_.relax(term) != term)) return {};
  Parts made{.op = terms_[term].op, .all = {}, .after = {}};
  switch (made.op) {
    case Op::both:
    case Op::alt:
      if (made.op == Op::alt && !is_great) return {};
      made.all.assign(terms_.parts(term).begin(), terms_.parts(term).end());
      return made;
    case Op::complement:
      made.all = {terms_[term].a};
      return made;
    case Op::repeat: {
      const Term counter = terms_[term];
      if (!is_great) return {};
      made.op = Op::cat;
      made.all = {counter.a};
      made.after = {
          terms_.repeat(counter.a, counter.b == 0 ? 0 : counter.b - 1, counter.c == kNoMax ? kNoMax : counter.c - 1)};
      return made;
    }
    case Op::cat: {  // a loop, for a tail may be long
      if (!is_great && terms_[terms_[term].a].plain) return {};
      TermId at = term;
      bool goes_on = true;
      for (; goes_on && terms_[at].op == Op::cat; at = terms_[at].b) {
        goes_on = terms_[terms_[at].a].nullable;
        made.all.push_back(terms_[at].a);
        made.after.push_back(terms_[at].b);
      }
      if (goes_on) {
        made.all.push_back(at);
        made.after.push_back(kEmpty);
      }
      return made;
    }
    default:
      return {};
  }
}

// What a term goes on as by a byte by which its parts go on as `next`.
TermId Lexicon::after_parts(const Parts& parts, std::vector<TermId>& next) {
  if (parts.op == Op::complement) return terms_.complement(next[0]);
  if (parts.op == Op::both) return std::ranges::find(next, kNever) == next.end() ? terms_.both(next) : kNever;
  if (parts.op == Op::cat)
    for (std::size_t i = 0; i < next.size(); ++i) next[i] = terms_.cat(next[i], parts.after[i]);
  std::erase(next, kNever);
  return next.size() == 1 ? next[0] : terms_.alt(next);
}

// The row of a term from the rows of its parts: these are shared by all the combinations that the parts come in. False
// for any other term.
bool Lexicon::row_of_parts(TermId term, Row& made, Work& work) {
  const Parts parts = parts_of(term);
  if (parts.all.empty()) return false;
  std::vector<const Row*> rows;
  for (TermId part : parts.all) rows.push_back(&raw_row(part, work));  // they do not move
  std::array<TermId, 256> changes{};  // by byte: not zero where a part goes on otherwise than after the byte before
  for (const Row* r : rows)
    for (std::size_t b = 1; b < 256; ++b) changes[b] |= r->next[b] ^ r->next[b - 1];
  std::vector<TermId> next;
  std::uint64_t runs = 0;
  for (std::size_t from = 0, until = 0; from < 256; from = until) {
    for (until = from + 1; until < 256 && changes[until] == 0;) ++until;
    next.clear();
    for (const Row* r : rows) next.push_back(r->next[from]);
    ++runs;
    const TermId to = after_parts(parts, next);
    if (to == kNever) continue;
    for (std::size_t b = from; b < until; ++b) {
      made.next[b] = to;
      made.first.add(static_cast<std::uint8_t>(b));
    }
  }
  work.spend(64 + 16 * runs + 4 * rows.size() + runs * rows.size() / 4);
  return true;
}

// The groups whose bytes do not all lead to the same state. Neighbours are compared first, which takes few instructions
// and is all that most rows need.
Groups Lexicon::uneven_groups(const std::array<TermId, 256>& next) {
  static constexpr auto kAsBefore = [] {  // by byte: whether the byte before is of the same group, as all bits
    std::array<TermId, 256> same{};
    for (std::size_t b = 1; b < 256; ++b) same[b] = kByteGroups[b] == kByteGroups[b - 1] ? ~TermId{0} : 0;
    return same;
  }();
  TermId differs = (next['\v'] ^ next[0]) | (next[0x0e] ^ next[0]);  // this group has gaps
  for (std::size_t b = 1; b < 256; ++b) differs |= (next[b] ^ next[b - 1]) & kAsBefore[b];
  if (differs == 0) return 0;
  Groups uneven = 0;
  std::array<TermId, 64> next_of;
  next_of.fill(kNone);
  for (std::size_t b = 0; b < 256; ++b) {
    TermId& first = next_of[kByteGroups[b]];
    if (first == kNone) first = next[b];
    if (first != next[b]) uneven |= Groups{1} << kByteGroups[b];
  }
  return uneven;
}

Lexicon::Row& Lexicon::row(TermId term, Work& work) {
  Row& r = raw_row(term, work);
  if (r.final) return r;
  work.spend(32);
  // Rows do not move, but the vector of them may grow while liveness is looked up.
  TermId last = kNone;
  bool last_alive = false;
  const ByteSet before = r.first;
  before.for_each([&](std::uint8_t b) {
    if (r.next[b] != last) {
      last = r.next[b];
      last_alive = alive(last, work);
    }
    if (!last_alive) {
      r.next[b] = kNever;
      r.first.remove(b);
    }
  });
  ByteSet loops;
  r.first.for_each([&](std::uint8_t b) {
    if (r.next[b] == term) loops.add(b);
  });
  r.first_groups = groups_of(r.first);
  if (!loops.empty()) r.loops = ~groups_of(~loops);
  r.uneven = uneven_groups(r.next);
  r.final = true;
  return r;
}

// The intersection that a term begins with, and what follows it; kNever where it begins with none.
std::pair<TermId, TermId> Lexicon::intersection(TermId term) const {
  const Term& t = terms_[term];
  if (t.op == Op::both) return {term, kEmpty};
  if (t.op == Op::cat && terms_[t.a].op == Op::both) return {t.a, t.b};
  return {kNever, kEmpty};
}

// What begins with an intersection that leaves out some texts of many, such as all names but some: a text mostly passes
// through its states once, so their rows are not kept.
bool Lexicon::is_passing(TermId term, Work& work) {
  const TermId without = intersection(term).first;
  if (without == kNever || has_row(term)) return false;
  const auto parts = terms_.parts(without);
  return std::ranges::any_of(parts, [&](TermId part) { return terms_[part].op == Op::complement; }) &&
         leaves_some(term, work);
}

// Whether it is plain to see that a term has more texts than it leaves out.
bool Lexicon::leaves_some(TermId term, Work& work) {
  if (terms_.endless(term, work) || terms_.outnumbers(term)) return true;
  const auto [without, rest] = intersection(term);
  if (without == kNever || !terms_[rest].plain) return false;
  std::vector<TermId> kept;
  work.spend(4 * terms_.parts(without).size());
  for (TermId part : terms_.parts(without)) {
    if (terms_[part].op != Op::complement)
      kept.push_back(part);
    else if (const TermId less = terms_[part].a; !terms_[less].plain || terms_.endless(less, work))
      return false;
  }
  return !kept.empty() && kept.size() < terms_.parts(without).size() && goes_round(terms_.both(kept), work);
}

// Whether a term, or one of the first that follow it, or one on a way to its end, is led back to itself by some byte:
// then it has endlessly many texts.
bool Lexicon::goes_round(TermId term, Work& work) {
  if (goes_round_.size() <= term) goes_round_.resize(terms_.size());
  if (goes_round_[term] == 0)
    goes_round_[term] = goes_round_soon(term, work) || goes_round_on_the_way(term, work) ? 2 : 1;
  return goes_round_[term] == 2;
}

bool Lexicon::goes_round_soon(TermId term, Work& work) {
  constexpr std::size_t kMostRows = 8;
  bool found = false;
  std::vector<TermId> met{term};
  for (std::size_t i = 0; i < met.size() && !found; ++i) {
    const Row& r = row(met[i], work);
    work.spend(8);
    for (TermId next : r.next) {
      found = found || next == met[i];
      if (next != kNever && met.size() < kMostRows && std::ranges::find(met, next) == met.end()) met.push_back(next);
    }
  }
  return found;
}

bool Lexicon::goes_round_on_the_way(TermId term, Work& work) {
  constexpr std::uint64_t kMostSteps = 64;
  if (!alive(term, work)) return false;
  std::vector<std::uint8_t> text;  // of a plain term
  std::size_t read = 0;
  TermId at = term;
  for (std::uint64_t step = 0; step < kMostSteps; ++step) {
    const Row& r = row(at, work);
    work.spend(8);
    if (std::ranges::find(r.next, at) != r.next.end()) return true;
    if (terms_[at].nullable) return false;
    if (read == text.size() && terms_[at].plain && terms_.shortest_length(at) <= kMostSteps)
      terms_.shortest(at, text, work);
    if (read < text.size()) {
      at = r.next[text[read++]];
    } else {
      if (at >= life_.size() || life_[at] != Life::alive) return false;  // the way is not known
      at = r.next[towards_[at].byte];
    }
    if (at == kNever) return false;
  }
  return false;
}

// A term as what it keeps, what it leaves out of that, and what follows; nothing where its wider form is another one
// than what it keeps, or where the parts are not plain.
Lexicon::Without Lexicon::without(TermId term, TermId wider, Work& work) {
  const auto [both, rest] = intersection(term);
  work.spend(8);
  if (both == kNever || !terms_[rest].plain) return {};
  Without found{.kept = kNone, .rest = rest, .less = {}};
  std::vector<TermId> kept;
  for (TermId part : terms_.parts(both)) {
    const bool is_left_out = terms_[part].op == Op::complement;
    (is_left_out ? found.less : kept).push_back(is_left_out ? terms_[part].a : part);
  }
  if (found.less.empty() || kept.empty()) return {};
  if (!std::ranges::all_of(found.less, [&](TermId one) { return terms_[one].plain; })) return {};
  const TermId all_kept = terms_.both(kept);
  if (terms_.cat(all_kept, rest) == wider) found.kept = all_kept;
  return found;
}

// The bytes after which a term and its wider form may differ. If the term begins with the wider one without some texts,
// these are the bytes that may come next in those texts; and what may follow one of them, where it ends here.
ByteSet Lexicon::apart(TermId term, TermId wider, Work& work) {
  const Without parts = without(term, wider, work);
  if (parts.kept == kNone) return ByteSet::all();
  ByteSet found;
  for (TermId one : parts.less) {
    found |= terms_.first(one, work);
    if (terms_[one].nullable) found |= terms_.first(parts.rest, work);
  }
  return found;
}

// Whether a byte that a text may go on with for ever, wherever in it that is, is in no text of what it leaves out: then
// nothing is left out that goes on with that byte, however it begins.
bool Lexicon::has_a_way_round(TermId text, TermId left_out, Work& work) {
  const TermId last = last_of(text);
  const Term& t = terms_[last];
  if (!terms_[text].plain || t.op != Op::repeat || t.c != kNoMax || terms_[t.a].nullable) return false;
  const Row& r = row(last, work);
  const ByteSet others = ~terms_.all_bytes(left_out, work) & r.first;
  bool found = false;
  others.for_each([&](std::uint8_t b) { found = found || r.next[b] == last; });
  work.spend(16);
  return found;
}

// The groups of bytes before which a term and its wider form go on alike, whatever comes. Where a term leaves out
// finitely many texts and may go on endlessly, it goes on as the wider one does. So it does where all texts that it
// leaves out lack some character, as names in small letters do. So the two differ only after a byte with which what is
// kept ends, or no longer goes on without an end.
Groups Lexicon::parting(TermId term, TermId wider, Work& work) {
  const Without parts = without(term, wider, work);
  if (parts.kept == kNone) return ~Groups{0};
  for (TermId one : parts.less)
    if (terms_.endless(one, work) && !has_a_way_round(parts.kept, one, work)) return ~Groups{0};
  const TermId kept = with_the_few(parts.kept, work);
  std::uint32_t known = parting_of_.find(kept, parts.rest);
  if (known == kNone) {
    const Groups found = closing(kept, parts.rest, work);
    known = static_cast<std::uint32_t>(partings_.size());
    parting_of_.insert(kept, parts.rest, known);
    partings_.push_back(found);
  }
  return partings_[known];
}

// Terms::wider, whose work is that of the terms that it makes.
TermId Lexicon::wider_of(TermId term, Work& work) {
  const std::size_t before = terms_.size();
  const TermId wider = terms_.wider(term);
  work.spend(16 * (terms_.size() - before));
  return wider;
}

// A term with the texts that it leaves out, if these are finitely many. It goes on without an end where the term does.
// So for the keys that no property declares, what is known of all keys holds. A quote may stand before that.
TermId Lexicon::with_the_few(TermId term, Work& work) {
  std::vector<TermId> heads;
  for (; terms_[term].op == Op::cat && terms_[terms_[term].a].op == Op::literals; term = terms_[term].b)
    heads.push_back(terms_[term].a);
  for (TermId more = wider_of(term, work); more != kNone; more = wider_of(term, work)) {
    const Without own = without(term, more, work);
    if (own.kept == kNone) break;
    if (std::ranges::any_of(own.less, [&](TermId one) { return terms_.endless(one, work); })) break;
    term = more;
  }
  work.spend(4 * heads.size());
  for (; !heads.empty(); heads.pop_back()) term = terms_.cat(heads.back(), term);
  return term;
}

Groups Lexicon::closing(TermId kept, TermId rest, Work& work) {
  constexpr std::size_t kMostStates = 64;
  if (!terms_.endless(kept, work)) return ~Groups{0};
  const ByteSet after = terms_.first(rest, work);
  ByteSet found;
  std::vector<TermId> met{kept};
  for (std::size_t i = 0; i < met.size(); ++i) {
    const Row& r = row(met[i], work);
    work.spend(64);
    if (terms_[met[i]].nullable && rest != kEmpty) {
      if (!(r.first & after).empty()) return ~Groups{0};
      found |= after;
    }
    TermId last = kNever;
    bool goes_on = false;
    for (std::size_t b = 0; b < 256; ++b) {
      const TermId next = r.next[b];
      if (next == kNever) continue;
      if (next != last) {
        last = next;
        goes_on = terms_.endless(next, work);
        if (goes_on && std::ranges::find(met, next) == met.end()) {
          if (met.size() == kMostStates) return ~Groups{0};
          met.push_back(next);
        }
      }
      if (!goes_on) found.add(static_cast<std::uint8_t>(b));
    }
  }
  return groups_of(found);
}

TermId Lexicon::step(TermId term, std::uint8_t byte, Work& work) {
  if (!terms_[term].plain && !is_passing(term, work)) return row(term, work).next[byte];
  // A counter passes through each of its states once: a whole row for each would be wasted.
  return step_once(term, byte, work);
}

TermId Lexicon::step_once(TermId term, std::uint8_t byte, Work& work) {
  if (has_row(term)) return row(term, work).next[byte];
  const TermId next = derivative(term, byte, work);
  return alive(next, work) ? next : kNever;
}

// A derivative from the rows of the parts, as far as these are known.
TermId Lexicon::derivative(TermId term, std::uint8_t byte, Work& work) {
  work.spend(4 + terms_.take_compared());
  const Term t = terms_[term];
  if (t.plain && has_row(term)) return raw_row(term, work).next[byte];
  if (t.op == Op::literals) return terms_.literals_after(t, byte);
  if (t.op == Op::substrings) return terms_.substrings_after(t, byte, work);
  if (t.op == Op::repeat) {
    const TermId rest = terms_.repeat(t.a, t.b == 0 ? 0 : t.b - 1, t.c == kNoMax ? kNoMax : t.c - 1);
    return terms_.cat(derivative(t.a, byte, work), rest);
  }
  if (t.op == Op::complement) return terms_.complement(derivative(t.a, byte, work));
  if (t.op == Op::cat && !terms_[t.a].nullable) return terms_.cat(derivative(t.a, byte, work), t.b);
  if (t.op == Op::cat) {  // a loop, for a tail may be long
    std::vector<TermId> readings;
    TermId at = term;
    bool goes_on = true;
    for (; goes_on && terms_[at].op == Op::cat; at = terms_[at].b) {
      goes_on = terms_[terms_[at].a].nullable;
      readings.push_back(terms_.cat(derivative(terms_[at].a, byte, work), terms_[at].b));
    }
    if (goes_on) readings.push_back(derivative(at, byte, work));
    return terms_.alt(readings);
  }
  if (t.op == Op::both || t.op == Op::alt) {
    std::vector<TermId> parts;
    for (std::uint32_t i = 0; i < t.b; ++i) {
      parts.push_back(derivative(terms_.parts(term)[i], byte, work));
      if (parts.back() == kNever && t.op == Op::both) return kNever;
    }
    return t.op == Op::both ? terms_.both(parts) : terms_.alt(parts);
  }
  ByteSet same = ByteSet::all();
  return terms_.derivative(term, byte, same, work);
}

const ByteSet& Lexicon::first(TermId term, Work& work) { return row(term, work).first; }

std::size_t Lexicon::bytes() const {
  return terms_.bytes() + held(row_of_) + held(rows_) + rows_.size() * (sizeof(Row) + kHeapBlock) + held(life_) +
         held(towards_) + held(goes_round_) + held(inside_) + inside_bytes_ + held(lanes_) + lane_bytes_ +
         lane_of_.bytes() + bounded_.bytes() + held(texts_) + held(like_of_) + held(likenesses_) +
         held(letters_below_) + parting_of_.bytes() + steps_beside_.bytes() + ways_in_.bytes() + held(clamped_) +
         held(clamped_inside_) + list_bytes_ + held(lists_) + list_of_.bytes() + list_with_.bytes() +
         unbounded_of_.bytes() + begun_with_.bytes() + held(unbounded_) + held(partings_) + held(plain_states_) +
         lengths_.bytes() + reaches_of_.bytes() + reaches_bytes_ + left_of_.bytes() + held(lefts_) + held(dense_) +
         held(beyond_) + beyond_bytes_ + dense_.size() * (mask_words_ * sizeof(std::uint32_t) + kHeapBlock) +
         held(scratch_) + held(mask_bits_) + held(mask_tokens_);
}

}  // namespace narrows
