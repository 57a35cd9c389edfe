// The parts of a text as a term: its states, and the tokens that stay inside of them.
//
// A state is a place of the sorted suffixes (automata/suffixes.hpp). Its record is made from the nodes of the trie along
// these suffixes, and no state is made for what is left after each byte.
//
// Cost of a record: for each node that some suffix comes to, one step in the trie, and for each suffix that parts from
// the one before within the tokens, a few comparisons. Suffixes that do not are passed by in blocks of 64 and 4,096. So
// a place of one suffix takes as many steps as the longest token has bytes.
#include <algorithm>

#include "automata/lexicon.hpp"
#include "sort_ids.hpp"

namespace narrows {

TermId Terms::substrings(const std::shared_ptr<const Suffixes>& text) {
  if (text->is_empty()) return kEmpty;
  std::uint32_t index =
      text_ids_.find(text->hash(), [&](std::uint32_t i) { return texts_[i] == text || *texts_[i] == *text; });
  if (index == kNone) {
    index = static_cast<std::uint32_t>(texts_.size());
    texts_.push_back(text);
    table_bytes_ += text->bytes();
    text_ids_.insert(text->hash(), index);
  }
  return substrings_at(index, texts_[index]->start());
}

TermId Terms::substrings_at(std::uint32_t text, const Suffixes::Place& place) {
  const bool ends = texts_[text]->may_end(place);
  if (ends && !texts_[text]->goes_on(place)) return kEmpty;
  return intern(
      {.op = Op::substrings, .nullable = ends, .a = text, .b = place.first, .c = place.last, .d = place.depth});
}

TermId Terms::substrings_after(const Term& term, std::uint8_t byte, Work& work) {
  const std::uint32_t text = term.a;
  work.spend(2 * texts_[text]->comparisons(place_of(term)));  // each at two places of the memory
  const Suffixes::Places places = texts_[text]->after(place_of(term), byte);
  if (places.count == 0) return kNever;
  if (places.count == 1) return substrings_at(text, places.all[0]);
  std::vector<TermId> readings;
  for (const Suffixes::Place& place : places.list()) readings.push_back(substrings_at(text, place));
  return alt(readings);
}

TermId Terms::substrings_step(const Term& term, std::uint8_t byte, ByteSet& same, Work& work) {
  const Suffixes& text = text_of(term);
  const Suffixes::Place place = place_of(term);
  const TermId next = substrings_after(term, byte, work);
  ByteSet one;
  one.add(byte);
  if (next != kNever) {
    same &= one;
    return next;
  }
  const ByteSet present = text.following(place);
  work.spend(4 * static_cast<std::uint64_t>(present.count()));
  same &= ~present;
  return kNever;
}

bool Terms::is_substrings(TermId term) const {
  const Term& t = terms_[term];
  if (t.op != Op::alt) return t.op == Op::substrings;
  return std::ranges::all_of(children(t),
                             [&](TermId part) { return part == kEmpty || terms_[part].op == Op::substrings; });
}

void Lexicon::walk_substrings(TermId term, Inside& made, Work& work) {
  const Term& t = terms_[term];
  if (t.op == Op::substrings) {
    walk_text(terms_.text_of(t), Terms::place_of(t), made, work);
  } else {
    for (TermId part : terms_.parts(term))
      if (part != kEmpty) walk_text(terms_.text_of(terms_[part]), Terms::place_of(terms_[part]), made, work);
  }
  sort_ids(made.tokens, 32 * mask_words_);  // of several parts
  work.spend(made.crossings.size() / 4);
  settle(made, work);
}

void Lexicon::walk_text(const Suffixes& text, const Suffixes::Place& place, Inside& made, Work& work) {
  const auto symbols = text.text();
  struct Open {                 // where the trie stands after so many symbols
    std::uint32_t node, child;  // the first child that is not passed: the suffixes come in order
  };
  std::vector<Open> path{{0, 1}};
  std::uint32_t visited = 0;
  const auto child = [&](Open& at, std::uint8_t byte) {
    if (at.node == 0) return trie_->root_child(byte);
    const std::uint32_t end = trie_->end(at.node);
    while (at.child < end && trie_->byte(at.child) < byte) at.child = trie_->end(at.child);
    return at.child < end && trie_->byte(at.child) == byte ? at.child : kNone;
  };
  // Reads on from a position after `read` symbols. Returns how many symbols have to be the same for what was found to
  // be all that is found.
  const auto read_on = [&](std::size_t begin, std::uint32_t read) {
    path.resize(read + 1);
    for (;; ++read) {
      std::uint32_t node = path.back().node;
      ++visited;
      if (trie_->end(node) == node + 1) return read;
      made.deepest = std::max(made.deepest, read + 1);
      const std::size_t at = begin + read;
      const bool is_over = at == symbols.size();
      if (node != 0 && (is_over || text.ends_before(symbols[at])) &&
          (made.crossings.empty() || made.crossings.back() != node))
        made.crossings.push_back(node);
      if (is_over) return read + 1;
      if (!text.is_mark(symbols[at])) {
        node = child(path.back(), symbols[at]);
        if (node == kNone) return read + 1;
        const auto tokens = trie_->tokens_at(node);
        made.tokens.insert(made.tokens.end(), tokens.begin(), tokens.end());
      }
      path.push_back({node, node + 1});
    }
  };
  if (place.last == 0) {
    read_on(place.first, 0);
  } else {
    std::uint32_t read = 0;
    for (std::uint32_t suffix = place.first; suffix < place.last;) {
      const std::uint32_t same = read_on(std::size_t{text.begin(suffix)} + place.depth, read);
      const auto [next, common] = text.next_apart(place, suffix, place.depth + same);
      suffix = next;
      read = suffix < place.last ? common - place.depth : 0;
    }
  }
  work.spend(4 * visited);
}

}  // namespace narrows
