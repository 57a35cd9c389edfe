// The names that one run of a rule has read, so that none of them comes twice: the keys of one object.
//
//   text  the bytes of a name that is being read, as a chain of prefixes.
//   name  a text that was read to its end, without its spelling: "a" and "\u0061" are one name.
//   set   the names so far. A set that has grown to `most` names stays as it is: what comes then may come again.
//
// All three are interned, so that a configuration can hold them by number. Cost: a prefix for each byte of a name, and for each set
// a table of its names.
#pragma once

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
  // For what holds whatever the names are. The next name may be any; nothing is said of what comes behind it.
  static constexpr NameSet kUnknown = kNone;
  static constexpr NameSet kAny =
      kNone - 1;  // for all that may be, whatever the names are: the next may be any, and so may those behind it
  static constexpr NameText kNotReading = kNone;
  static constexpr NameText kUnread = kNone - 1;  // a name that is being read behind unknown ones

  Names(Lexicon& lexicon, std::uint64_t most);

  NameText begin(NameSpelling spelling) const { return static_cast<NameText>(spelling); }
  NameText extend(NameText text, std::uint8_t byte);
  // The set with the name that has been read.
  NameSet add(NameSet set, NameText text, Work& work);
  // What `term` reads, but for these names in any of their spellings.
  TermId without(TermId term, NameSpelling spelling, NameSet set, Work& work);

  std::size_t bytes() const;

 private:
  struct Prefix {
    NameText before;
    std::uint8_t byte;
    NameSpelling spelling;
  };
  std::uint32_t name_of(NameText text, Work& work);
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
  IdTable name_ids_, set_ids_;
  StepMap without_;
};

}  // namespace narrows
