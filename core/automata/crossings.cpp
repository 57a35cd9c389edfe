// Where tokens leave a term: the crossings of its record, and what the tokens have beyond them.
//
// Cost: `beyond` visits what is below the crossings, `needed_crossings` the tokens there; each once for a record.
#include <algorithm>

#include "automata/lexicon.hpp"

namespace narrows {

namespace {
// Nodes of the trie that are laid over each other: below one crossing, and below all of a record.
constexpr std::uint32_t kMostBelow = 2'000, kMostBeyond = 8'000;
constexpr std::uint32_t kMuchBeyond = 2'000;  // nodes
}  // namespace

// Refers to the term that has the same crossings, rather than listing them again.
void Lexicon::share_crossings(Inside& made, TermId other, Work& work) {
  if (made.crossings != inside(other, work).crossings) return;
  made.crossings = {};
  made.crossings_of = other;
}

// The nodes below each crossing count for it, so those below several count as often.
bool Lexicon::has_much_beyond(TermId crossings_of, Work& work) {
  Inside& record = *inside_[crossings_of];
  if (record.nodes_beyond == kNone) {
    record.nodes_beyond = 0;
    for (std::uint32_t crossing : record.crossings) record.nodes_beyond += trie_->end(crossing) - crossing - 1;
    work.spend(record.crossings.size() / 4);
  }
  return record.nodes_beyond > std::min(kMuchBeyond, trie_->size() / 16);
}

// A record made by groups of bytes has more crossings than it needs.
std::span<const std::uint32_t> Lexicon::needed_crossings(TermId term, Work& work) {
  Inside& record = *inside_[clamp_inside(term, work)];
  const std::vector<std::uint32_t>& all = inside_[record.crossings_of]->crossings;
  if (!record.needed && ++record.walks < 2) return all;
  if (!record.needed) {
    load(record);
    const std::span<const std::uint32_t> tokens = trie_->tokens_below(0);
    std::vector<std::uint32_t> needed;
    std::size_t at = 0;  // the record has all tokens from that of the last crossing to this one
    for (std::uint32_t crossing : all) {
      const auto below = trie_->tokens_below(crossing);
      const auto first = static_cast<std::size_t>(below.data() - tokens.data());
      const std::size_t before = at = std::max(at, first);
      while (at < first + below.size() && ((scratch_[tokens[at] >> 5] >> (tokens[at] & 31)) & 1) != 0) ++at;
      if (at < first + below.size()) needed.push_back(crossing);
      work.spend(1 + (at - before) / 4);
    }
    needed.shrink_to_fit();
    inside_bytes_ += sizeof(needed) + held(needed) + 2 * kHeapBlock;
    record.needed = std::make_unique<std::vector<std::uint32_t>>(std::move(needed));
  }
  return *record.needed;
}

// Made at the second walk: most records are walked once.
const Beyond* Lexicon::beyond(TermId crossings_of, Work& work) {
  Inside& record = *inside_[crossings_of];
  if (record.beyond != kNone) return &beyond_[record.beyond];
  if (record.crossings.size() < 2 || ++record.walks < 2) return nullptr;
  Beyond made;
  std::vector<std::uint32_t> small;
  std::uint32_t nodes = 0;
  for (std::uint32_t crossing : record.crossings) {
    const std::uint32_t below = trie_->end(crossing) - crossing;
    const bool is_great = below > kMostBelow || nodes + below > kMostBeyond;
    (is_great ? made.great : small).push_back(crossing);
    if (!is_great) nodes += below;
  }
  work.spend(record.crossings.size() / 4 + 4 * nodes);
  check_memory();
  made.merged = MergedTree(*trie_, small, kBytesThemselves);
  made.great.shrink_to_fit();
  beyond_bytes_ += made.merged.memory() + held(made.great);
  record.beyond = static_cast<std::uint32_t>(beyond_.size());
  beyond_.push_back(std::move(made));
  return &beyond_.back();
}

}  // namespace narrows
