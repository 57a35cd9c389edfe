// Regular languages over bytes as hash-consed terms, and their Brzozowski derivatives.
//
// A term is an id; equal terms have equal ids. An automaton state is a term. The constructors normalise
// (units, zeros, sorted alternatives, folded counters), so that most states that accept the same texts are one state.
// Counters stay counters: x{0,100000} is one term, and its derivative x{0,99999} another.
//
// Cost: a constructor is one hash look-up; a derivative visits the front of the term only. Every term carries its
// depth, which bounds the recursion. `limits.term_depth` caps the depth when a term is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "automata/byteset.hpp"
#include "automata/spelling.hpp"
#include "automata/suffixes.hpp"
#include "error.hpp"
#include "intern.hpp"

namespace narrows {

using TermId = std::uint32_t;

enum class Op : std::uint8_t { never, empty, set, cat, alt, repeat, both, complement, literals, names, substrings };

struct Term {
  Op op = Op::never;
  bool nullable = false;
  bool plain = true;       // no `both` and no `complement` inside: such a term accepts something unless it is `never`
  std::uint8_t front = 1;  // sets and lists that may come first, which a derivative looks at: 255 stands for more
  std::uint32_t depth = 0;
  // set: a = index of the byte set. cat: a, b = terms. alt, both: children()[a .. a+b). repeat: a{b,c}. complement: a.
  // literals: strings [b, c) of table a, of which the first d bytes have been read. names: the same, in any spelling,
  // and the quote. substrings: the place (b, c, d) of text a.
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  friend bool operator==(const Term&, const Term&) = default;
};

inline constexpr TermId kNever = 0;  // accepts nothing
inline constexpr TermId kEmpty = 1;  // accepts the empty text
inline constexpr TermId kAll = 2;    // accepts every text
inline constexpr std::uint32_t kNoMax = 0xffffffff;
inline constexpr std::uint64_t kOutOfReach = 1ull << 40;  // of bytes

class Terms {
 public:
  Terms();
  // The deepest term that may be made from now on (limits.term_depth); it bounds the recursion of the passes below.
  void set_max_depth(std::uint32_t depth) { max_depth_ = depth; }

  TermId set(const ByteSet& bytes);
  TermId cat(TermId first, TermId second);
  TermId alt(std::span<const TermId> items);
  TermId both(std::span<const TermId> items);
  TermId complement(TermId item);
  TermId repeat(TermId item, std::uint32_t min, std::uint32_t max);
  // One of the strings; `offsets` has one entry more than there are strings. Sorted and stripped of duplicates here.
  TermId literals(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets);

  // One of the strings in any of its spellings, and the quote that closes it.
  TermId names(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets, NameSpelling spelling);

  // The parts of a text, and the empty text. Equal texts are one.
  TermId substrings(const std::shared_ptr<const Suffixes>& text);

  // The derivative: what may follow `byte` in the term's texts. `same` is reduced to the bytes with the same
  // derivative.
  TermId derivative(TermId term, std::uint8_t byte, ByteSet& same, Work& work);
  // The same of a list of strings, where only this byte matters.
  TermId literals_after(Term term, std::uint8_t byte);
  // And of the parts of a text.
  TermId substrings_after(const Term& term, std::uint8_t byte, Work& work);
  // The text that a term is a place of.
  const Suffixes& text_of(const Term& substrings) const { return *texts_[substrings.a]; }
  static Suffixes::Place place_of(const Term& substrings) { return {substrings.b, substrings.c, substrings.d}; }
  // Whether a term is parts of texts alone: a place, or several and nothing else.
  bool is_substrings(TermId term) const;

  // A term that equals this one for texts of up to `length` bytes, with counters beyond `length` folded together. Only
  // for plain terms; others are returned unchanged, because below `both`, counters decide whether anything is accepted.
  TermId clamp(TermId term, std::uint32_t length);

  // A term that accepts at least as much: its great counters have no bounds. It has far fewer states, and if it accepts
  // nothing, neither does this one. Complemented parts are unchanged.
  TermId relax(TermId term);
  // The same. Of an intersection, a counter at the end of a part has no bounds either, however small.
  TermId loosen(TermId term);

  // A term that accepts at least as much: its counters have no greatest numbers, but for small ones. Of texts with up to
  // `room` bytes it accepts the same. Complemented parts are unchanged.
  struct Recounted {
    TermId term = kNone;
    std::uint32_t room = kNone;
  };
  Recounted without_bounds(TermId term);

  // The terms that an alternation or an intersection is of; valid until the next term is made.
  std::span<const TermId> parts(TermId term) const { return children(terms_[term]); }
  // The parts of a term of this kind; any other term alone.
  std::vector<TermId> split(TermId term, Op op) const {
    if (terms_[term].op != op) return {term};
    return {parts(term).begin(), parts(term).end()};
  }
  // What the alternatives of a term begin with, each with a shorter and a shorter head, as far as these are few.
  std::vector<TermId> beginnings(TermId term) const;
  // The bytes of a set.
  const ByteSet& bytes_of(TermId set) const { return sets_[terms_[set].a]; }

  // The bytes that a plain term's texts may begin with; cached by term.
  ByteSet first(TermId term, Work& work);

  // The bytes of a term's texts, and perhaps others: all bytes where it has many parts.
  ByteSet all_bytes(TermId term, Work& work) const;

  // Whether the term accepts infinitely many texts. True is always right; false may be wrong for a term that is not
  // plain.
  bool endless(TermId term, Work& work);

  // What is left of the texts of a list of strings, sorted; of any other term, nothing. Valid until the next list is
  // made.
  std::vector<std::span<const std::uint8_t>> options(TermId term) const;

  // Whether the term is a list of strings without so few others that some must be left. True is always right.
  bool outnumbers(TermId term) const;

  // A simpler term that accepts at least as much: without what an intersection in it excludes, or without the bounds of
  // the first counter. kNone where there is none.
  TermId wider(TermId term);
  // How a term differs from its wider form, if they differ in one counter only: x{b,c} rest and x{0,} rest.
  struct Count {
    bool found = false;
    bool same_min = false;   // b is 0
    std::uint32_t room = 0;  // c: no text of up to so many bytes uses it up
    TermId rest = kNever;    // and unless it enters the rest, none tells b from 0
  };
  Count count_apart(TermId term, TermId wider) const;

  // Appends a shortest text of a plain term; false if the term is not plain. The length of that text, cached by term;
  // for a term that is not plain, a lower bound of it. Among many parts of a text, a short one counts as the shortest.
  bool shortest(TermId term, std::vector<std::uint8_t>& out, Work& work);
  std::uint64_t shortest_length(TermId term);
  // The most bytes that end a text of a plain term in the shortest way, wherever it stands in the term; an upper bound.
  // Cached by term.
  std::uint64_t longest_way(TermId term);

  // Units of work for the parts of alternatives that were compared since the last call: up to 2,000 for an alternation
  // that was made. To be spent by whoever makes many.
  std::uint64_t take_compared() { return std::exchange(compared_, 0) / 2; }

  const Term& operator[](TermId id) const { return terms_[id]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(terms_.size()); }
  std::size_t bytes() const;

 private:
  struct Table {
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint32_t> offsets;
    std::uint64_t hash = 0;
    NameSpelling spelling = NameSpelling::bytes;
    std::span<const std::uint8_t> at(std::uint32_t i) const {
      return std::span(bytes).subspan(offsets[i], offsets[i + 1] - offsets[i]);
    }
  };
  std::span<const TermId> children(const Term& t) const { return std::span(children_).subspan(t.a, t.b); }
  TermId intern(Term term, std::span<const TermId> list = {});
  std::uint8_t front_of(const Term& term, std::span<const TermId> list) const;
  std::uint32_t table_of(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets,
                         NameSpelling spelling);
  TermId names_step(const Term& term, std::uint8_t byte, ByteSet& same, Work& work);
  ByteSet names_first(const Term& term, Work& work) const;
  TermId escaped(std::span<const std::uint8_t> utf8, NameSpelling spelling);
  TermId literals_from(std::uint32_t table, std::uint32_t low, std::uint32_t high, std::uint32_t depth);
  TermId substrings_at(std::uint32_t text, const Suffixes::Place& place);
  TermId substrings_step(const Term& term, std::uint8_t byte, ByteSet& same, Work& work);
  std::uint32_t bound(const Term& term, std::uint32_t from, int value) const;
  TermId literals_step(const Term& term, std::uint8_t byte, ByteSet& same);
  Recounted recount(TermId id, std::vector<Recounted>& found,
                    const std::function<Recounted(const Term&, TermId item)>& bounded);
  TermId without_last_count(TermId id);
  TermId wider_part(TermId id);
  TermId make_wider_part(TermId id);
  TermId combine(Op op, std::vector<TermId>& items);
  void drop_lesser_counts(std::vector<TermId>& items);
  static constexpr int kMostNested = 2;  // and so many levels of parts are looked into
  static constexpr std::uint32_t kMostNestedParts = 4;
  bool has_count(TermId id, int depth) const;
  bool counts_less(TermId id, TermId other, int depth);
  bool part_counts_less(TermId id, TermId other, int depth);

  std::uint32_t max_depth_ = 1'000;
  std::uint64_t compared_ = 0;  // a unit is some 5 ns, and a comparison half of that
  std::vector<Term> terms_;
  std::vector<TermId> children_;
  std::vector<ByteSet> sets_;
  std::vector<Table> tables_;
  std::size_t table_bytes_ = 0;  // of the texts, too
  std::vector<std::shared_ptr<const Suffixes>> texts_;
  IdTable term_ids_, set_ids_, table_ids_, text_ids_;
  StepMap escaped_;              // by character and spelling
  std::vector<TermId> clamped_;  // by term, kNone where not asked for yet; all for the same length
  std::uint32_t clamp_length_ = 0;
  std::vector<std::uint8_t> endless_;  // by term: 0 where not asked for yet, else 1, or 2 where it is
  std::vector<std::uint32_t> firsts_;  // by term: 1 + a set of first_sets_, 0 where not asked for yet
  std::vector<ByteSet> first_sets_;
  std::vector<Recounted> relaxed_;         // by term, kNone where not asked for yet
  std::vector<Recounted> without_bounds_;  // the same
  std::vector<TermId> loosened_;           // the same
  StepMap wider_of_;                       // by term: wider_part; kNever where there is none
  std::vector<std::uint64_t> lengths_;     // by term, of its shortest text
  std::vector<std::uint64_t> ways_;        // by term: longest_way
};

}  // namespace narrows
