// Questions about regular languages while a grammar is being read: which names does a pattern match, is any name left
// for a third pattern, and which few are these?
//
// The terms and their automata are those that masks are made of (automata/lexicon.hpp), over no vocabulary. Cost: some
// 0.3 us for each new state and class of bytes; what was found out stays known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "automata/lexicon.hpp"

namespace narrows {

class Regular {
 public:
  // A question that needs more memory than `most_bytes` is refused with the limit constraint_bytes; a term that nests
  // more deeply than `most_depth`, with term_depth.
  Regular(std::uint64_t most_bytes, std::uint32_t most_depth);

  Terms& terms() { return lexicon_.terms(); }
  // Terms that a caller names: one that it cannot have been given is refused.
  TermId known(std::uint64_t term);

  bool matches(TermId term, std::span<const std::uint8_t> text, Work& work);
  bool is_never(TermId term, Work& work) { return !lexicon_.alive(term, work); }
  // All texts of the term, shorter ones first; nothing where there are more than `most`.
  std::optional<std::vector<std::string>> texts(TermId term, std::size_t most, Work& work);
  std::size_t bytes() const { return lexicon_.bytes() + steps_.bytes(); }

 private:
  Lexicon lexicon_;
  StepMap steps_;
};

}  // namespace narrows
