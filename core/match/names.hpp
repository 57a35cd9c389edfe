// The names that one run of a rule has read, such as the keys of one object, so that none of them comes twice.
//
//   text  the bytes of a name that is being read, as a chain of prefixes.
//   name  a text that was read to its end, without its spelling: "a" and "\u0061" are one name. The string "1" and the
//         bytes 1 are two.
//   set   the names so far. A set of `most` names does not grow further: names after that may be repeated.
//
// All three are interned, so that a configuration can hold them by number. Cost: one prefix per byte of a name, and one
// table of names per set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "automata/lexicon.hpp"

namespace narrows {

using NameSet = std::uint32_t;
using NameText = std::uint32_t;

class Names {
 public:
  static constexpr NameSet kNoNames = 0;
  // The names are not known. The next name may be any name; the text after it is left out.
  static constexpr NameSet kUnknown = kNone;
  // The names are not known. The next name may be any name, and so may the names after it.
  static constexpr NameSet kAny = kNone - 1;
  static constexpr NameText kNotReading = kNone;
  static constexpr NameText kUnread = kNone - 1;  // a name that is being read after unknown ones
  static constexpr NameText kOnce = kNone - 2;    // the same, where there is no other name to read
  static constexpr NameText kSome = kNone - 3;    // after any names: a name that is being read, whichever it is
  static constexpr NameText kFixed = 1u << 31;    // from here on: a name that is known before it is read

  static bool is_unread(NameText text) { return text == kUnread || text == kOnce; }

  Names(Lexicon& lexicon, std::uint64_t most);

  NameText begin(NameSpelling spelling) const { return static_cast<NameText>(spelling); }
  NameText extend(NameText text, std::uint8_t byte);
  // A name that is known before it is read. It is added to a set of any size.
  NameText fixed(std::span<const std::uint8_t> name, bool string);
  // The set, with the name that has been read added.
  NameSet add(NameSet set, NameText text, Work& work);
  // A name by its text, quotes included, and whether it is in a set.
  std::uint32_t spelled(std::span<const std::uint8_t> text, NameSpelling spelling);
  bool has(NameSet set, std::uint32_t name) const { return std::ranges::binary_search(members(set), name); }
  // Whether the fixed names are all in the set. `texts` is sorted.
  bool has_all(NameSet set, std::span<const NameText> texts, Work& work) const;
  // The texts of `term` without these names in any of their spellings.
  TermId without(TermId term, NameSpelling spelling, NameSet set, Work& work);

  std::size_t bytes() const;

 private:
  struct Prefix {
    NameText before;
    std::uint8_t byte;
    NameSpelling spelling;
  };
  std::uint32_t name_of(NameText text, Work& work);
  TermId fewer(TermId term, NameSpelling spelling, NameSet set, Work& work);
  std::uint32_t intern(std::span<const std::uint8_t> plain, bool string);
  std::span<const std::uint8_t> name(std::uint32_t id) const {
    return std::span(name_bytes_).subspan(name_offsets_[id], name_offsets_[id + 1] - name_offsets_[id]);
  }
  std::span<const std::uint32_t> members(NameSet set) const {
    return std::span(set_names_).subspan(set_offsets_[set], set_offsets_[set + 1] - set_offsets_[set]);
  }

  Lexicon& lexicon_;
  std::uint64_t most_;
  std::vector<Prefix> prefixes_;  // the first are the empty ones, by spelling
  StepMap next_;
  std::vector<std::uint8_t> name_bytes_;
  std::vector<std::uint32_t> name_offsets_{0}, set_names_, set_offsets_{0, 0};
  std::vector<std::uint8_t> is_string_;  // by name: it was read as a string
  IdTable name_ids_, set_ids_;
  StepMap without_;
};

}  // namespace narrows
