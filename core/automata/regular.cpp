#include "automata/regular.hpp"

#include <memory>
#include <utility>

namespace narrows {

Regular::Regular(std::uint64_t most_bytes, std::uint32_t most_depth)
    : lexicon_(std::make_shared<const Trie>(std::vector<std::uint8_t>{}, std::vector<std::uint64_t>{0}), 0,
               most_bytes) {
  terms().set_max_depth(most_depth);
}

TermId Regular::known(std::uint64_t term) {
  if (term >= terms().size()) throw Error("invalid_input", "there is no such term");
  return static_cast<TermId>(term);
}

// States are kept, and no row is: a text passes through each of its states once.
bool Regular::matches(TermId term, std::span<const std::uint8_t> text, Work& work) {
  TermId at = term;
  for (std::uint8_t byte : text) {
    if (at == kNever || at == kAll) break;
    TermId next = steps_.find(at, byte);
    work.spend(8);
    if (next == kNone) {
      ByteSet same = ByteSet::all();
      next = terms().derivative(at, byte, same, work);
      steps_.insert(at, byte, next);
    }
    at = next;
  }
  return terms()[at].nullable;
}

std::optional<std::vector<std::string>> Regular::texts(TermId term, std::size_t most, Work& work) {
  if (terms().endless(term, work)) return std::nullopt;
  std::vector<std::string> found;
  std::vector<std::pair<std::string, TermId>> level;
  if (lexicon_.alive(term, work)) level.emplace_back("", term);
  while (!level.empty()) {
    std::vector<std::pair<std::string, TermId>> longer;
    for (const auto& [text, state] : level) {
      if (terms()[state].nullable) found.push_back(text);
      work.spend(16 + text.size());
      const ByteSet first = lexicon_.first(state, work);
      // Each of these goes on to a text of its own.
      if (longer.size() + static_cast<std::size_t>(first.count()) > most) return std::nullopt;
      first.for_each([&](std::uint8_t byte) {
        longer.emplace_back(text + static_cast<char>(byte), lexicon_.step(state, byte, work));
      });
    }
    if (found.size() > most) return std::nullopt;
    level = std::move(longer);
  }
  return found;
}

}  // namespace narrows
