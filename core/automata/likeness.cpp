// Terms that are like a known text: a pattern that may be found anywhere goes on after any character, as a string does.
//
// Mostly the term says so itself. Otherwise the two automata are compared once, state by state. Then the trie is walked
// only below nodes with a byte that tells them apart (Lexicon::walk_beside).
//
// Cost: at most 64 beginnings of the term, and whether the text holds all of it: some units for each part of the term
// and state of the text, once. Or the rows of both, for at most 1,024 pairs of states, once for each term and known
// text (at most four texts).
#include <algorithm>
#include <bit>

#include "automata/lexicon.hpp"

namespace narrows {
namespace {
constexpr std::uint32_t kUnlike = 1;  // the likeness of a term that was compared in vain
constexpr int kMostUnlike = 24;       // groups of bytes
}  // namespace

// A term that goes on as a text does, until that is closed: one of its alternatives begins with any characters, without
// an end. So a pattern that may be found anywhere needs no comparison, however many states it has.
//
// Beside it a least number of characters may be asked for: until the text is closed, as many as are wanted may come.
// So may further patterns. Before all that something else may stand, such as the quote that opens a string, or a few
// characters of the text.
Lexicon::Likeness Lexicon::until_closed(TermId term, Work& work) {
  constexpr std::size_t kMostHeads = 4;
  if (!terms_[term].plain) return all_until_closed(term, work);
  // Few tokens go on with a quote that opens a string: to walk them takes less than to make further records.
  const std::size_t most_heads = is_text(row(term, work)) ? kMostHeads : 1;
  Likeness like = plain_until_closed(term, work);
  std::vector<TermId> heads;
  TermId at = term;
  while (like.wider == kNone && heads.size() < most_heads) {
    if (terms_[at].op != Op::cat) return {};
    TermId head = terms_[at].a, rest = terms_[at].b;
    for (std::size_t i = 0; terms_[head].op == Op::cat; ++i, head = terms_[head].a) {
      if (i == kMostHeads) return {};
      rest = terms_.cat(terms_[head].b, rest);
    }
    const Term h = terms_[head];
    if (h.op == Op::repeat && h.b > 0 && h.b <= kMostHeads && h.c == kNoMax) {
      head = terms_.repeat(h.a, h.b, h.b);
      rest = terms_.cat(terms_.repeat(h.a, 0, kNoMax), rest);
    }
    if (terms_[head].op == Op::alt && !begins_with(rest, head)) return {};
    heads.push_back(head);
    at = rest;
    work.spend(32);
    like = plain_until_closed(at, work);
    if (like.until) return {};
  }
  if (like.wider == kNone) return {};
  for (; !heads.empty(); heads.pop_back()) like.wider = with_head(heads.back(), like.wider);
  return like;
}

// A term behind an item. Behind any number of that item it is one more, which other texts may have, too.
TermId Lexicon::with_head(TermId head, TermId term) {
  const Term h = terms_[head];
  const bool is_several = h.op == Op::repeat && h.b == h.c;
  const TermId item = is_several ? h.a : head;
  if (terms_[term].op == Op::cat && begins_with(term, item))
    if (const Term first = terms_[terms_[term].a]; first.op == Op::repeat && first.c == kNoMax)
      return terms_.cat(terms_.repeat(item, first.b + (is_several ? h.b : 1), kNoMax), terms_[term].b);
  return terms_.cat(head, term);
}

// Whether a term begins with this item, or with any number of it.
bool Lexicon::begins_with(TermId term, TermId item) const {
  TermId first = term;
  while (terms_[first].op == Op::cat) first = terms_[first].a;
  return first == item || (terms_[first].op == Op::repeat && terms_[first].a == item);
}

// The same of an intersection: of patterns that may be found after any characters, of least numbers of these, and of
// the characters themselves. All patterns but one must allow any characters after what is found, too. Then it goes on:
// as many characters as are wanted may come, and then what is to be found, one after the other.
Lexicon::Likeness Lexicon::all_until_closed(TermId term, Work& work) {
  constexpr std::size_t kMostParts = 8;
  const auto [both, rest] = intersection(term);
  if (both == kNever || terms_[rest].op == Op::cat || terms_[rest].nullable) return {};
  const std::vector<TermId> parts(terms_.parts(both).begin(), terms_.parts(both).end());
  const auto is_plain = [&](TermId part) { return terms_[part].plain; };
  if (parts.size() > kMostParts || !std::ranges::all_of(parts, is_plain)) return {};
  for (TermId part : parts) {
    const std::vector<TermId> beginnings = terms_.beginnings(part);
    work.spend(4 * beginnings.size());
    bool is_tried = false;
    for (const TermId begun : beginnings) {
      const TermId characters = last_of(begun);
      if (!is_any_text(characters, work) || !is_state(begun, characters, work)) continue;
      std::uint64_t way = 0;
      if (all_go_on(parts, begun, rest, way, work)) return likeness_until(terms_.cat(begun, rest), rest, work);
      is_tried = true;
    }
    if (is_tried) break;  // all patterns begin with the same characters
  }
  return {};
}

// Whether the parts of an intersection do so, where the characters have begun. `way`: the bytes, and so at most the
// characters, that are then to be found.
bool Lexicon::all_go_on(std::span<const TermId> parts, TermId begun, TermId close, std::uint64_t& way, Work& work) {
  const TermId characters = last_of(begun);
  way = 0;
  bool is_text = false;  // one of the parts has no other texts
  std::size_t patterns = 0, last_ones = 0;
  for (TermId part : parts) {
    if (part == begun) {
      is_text = true;
    } else if (without_least(part) == begun) {
      if (!can_be_counted(terms_[characters].a, close, work)) return false;
      is_text = true;
    } else {
      const Found found = found_after(part, begun, way, work);
      if (found == Found::never) return false;
      if (found == Found::last) ++last_ones;
      ++patterns;
      is_text = is_text || holds_only(part, characters, begun, work);
    }
  }
  return is_text && patterns > 0 && last_ones <= 1;
}

// Whether what a pattern looks for may come after any characters, as one of its alternatives says; and whether any
// characters may follow. What is to come must be of such characters itself: a shortest text is tried. Its length is
// added to `way`.
Lexicon::Found Lexicon::found_after(TermId pattern, TermId begun, std::uint64_t& way, Work& work) {
  const TermId characters = last_of(begun);
  const std::vector<TermId> alternatives = terms_.split(pattern, Op::alt);
  Found best = Found::never;
  std::uint64_t length = 0;
  work.spend(alternatives.size());
  for (TermId one : alternatives) {
    if (one == begun) return Found::anywhere;
    if (best == Found::anywhere || terms_[one].op != Op::cat || terms_[one].a != begun) continue;
    const TermId tail = terms_[one].b, end = last_of(tail);
    const Found found = end == characters || end == kAll ? Found::anywhere : Found::last;
    std::vector<std::uint8_t> text;
    if (found == best || !terms_.shortest(tail, text, work)) continue;
    TermId at = characters;
    for (std::size_t i = 0; i < text.size() && at != kNever; ++i) at = row(at, work).next[text[i]];
    if (at == kNever || !terms_[at].nullable) continue;
    best = found;
    length = text.size();
  }
  way += length;
  return best;
}

// Any number of characters of a text.
bool Lexicon::is_any_text(TermId term, Work& work) {
  const Term t = terms_[term];
  return t.op == Op::repeat && t.b == 0 && t.c == kNoMax && !terms_[t.a].nullable && is_text(row(t.a, work));
}

// No character begins another one, or as what closes a text.
bool Lexicon::can_be_counted(TermId character, TermId close, Work& work) {
  return (terms_.first(character, work) & terms_.first(close, work)).empty() && is_prefix_free(character, work);
}

// No text of the term begins another one. False where it has too many states.
bool Lexicon::is_prefix_free(TermId term, Work& work) {
  const States& list = *lists_[list_of(term, work)];
  for (std::size_t i = 0; i < list.states.size() && list.ends != 0; ++i)
    if (((list.ends >> i) & 1) != 0 && list.states[i] != kEmpty) return false;
  return list.ends != 0;
}

// After a single byte that closes a text nothing follows. So what is found for two terms holds for all that they come
// to.
Lexicon::Likeness Lexicon::likeness_until(TermId wider, TermId close, Work& work) {
  const auto& after = row(close, work).next;
  const bool ends = std::ranges::all_of(after, [](TermId next) { return next == kNever || next == kEmpty; });
  return {.wider = wider, .unlike = groups_of(terms_.first(close, work)), .until = !ends, .is_close = true};
}

// The last part of a concatenation.
TermId Lexicon::last_of(TermId term) const {
  while (terms_[term].op == Op::cat) term = terms_[term].b;
  return term;
}

// A counter without its least number, perhaps after the rest of an item; kNone where the term is something else.
TermId Lexicon::without_least(TermId term) {
  constexpr std::size_t kMostHeads = 4;
  std::vector<TermId> heads;
  TermId at = term;
  const auto counts = [&](TermId id) {
    const Term& t = terms_[id];
    return t.op == Op::repeat && t.b > 0 && t.c == kNoMax && t.plain;
  };
  for (; terms_[at].op == Op::cat && !counts(terms_[at].a) && heads.size() < kMostHeads; at = terms_[at].b)
    heads.push_back(terms_[at].a);
  const bool is_last = terms_[at].op != Op::cat;
  const TermId counter = is_last ? at : terms_[at].a;
  if (!counts(counter)) return kNone;
  TermId made = terms_.repeat(terms_[counter].a, 0, kNoMax);
  if (!is_last) made = terms_.cat(made, terms_[at].b);
  for (; !heads.empty(); heads.pop_back()) made = terms_.cat(heads.back(), made);
  return made;
}

Lexicon::Likeness Lexicon::plain_until_closed(TermId term, Work& work) {
  constexpr std::size_t kMostTexts = 2;
  const TermId close = last_of(terms_[term].op == Op::alt ? terms_.parts(term)[0] : term);
  if (terms_[close].nullable) return {};
  const std::vector<TermId> beginnings = terms_.beginnings(term);
  work.spend(4 * beginnings.size());
  std::vector<TermId> texts;
  for (const TermId begun : beginnings) {
    const TermId characters = last_of(begun);
    if (std::ranges::find(texts, characters) == texts.end()) {
      if (texts.size() == kMostTexts || !is_any_text(characters, work)) continue;
      texts.push_back(characters);
    }
    const TermId text = terms_.cat(characters, close), other = terms_.cat(begun, close);
    if (other == term || !is_state(other, text, work) || !holds_only(term, text, other, work)) continue;
    return likeness_until(other, close, work);
  }
  return {};
}

// A text with much after it, such as a string in an object that is one terminal. Up to what closes the string it is as
// others that begin with such a text. The first of them is walked. The others are made beside one that takes anything
// after the close.
Lexicon::Likeness Lexicon::text_before_more(TermId term, Work& work) {
  if (terms_[term].op != Op::cat || !terms_[term].plain) return {};
  TermId text = terms_[term].a, after = terms_[term].b;
  while (terms_[text].op == Op::cat) {
    after = terms_[text].b;
    text = terms_[text].a;
  }
  const bool is_more = text != terms_[term].a || terms_[after].op == Op::cat;
  if (!is_more || terms_[after].nullable || !is_any_text(text, work)) return {};
  if (!can_be_counted(terms_[text].a, after, work)) return {};
  const ByteSet close = terms_.first(after, work);
  const TermId wider = terms_.cat(text, terms_.cat(terms_.set(close), kAll));
  if (begun_with_.find(text, wider) == kNone) {
    begun_with_.insert(text, wider, 0);
    return {};
  }
  return {.wider = wider, .unlike = groups_of(close), .until = true, .is_close = false};
}

// What is found for two terms holds for all states that both come to.
const Lexicon::Likeness& Lexicon::likeness(TermId term, Work& work) {
  if (like_of_.size() <= term) like_of_.resize(terms_.size(), 0);
  if (like_of_[term] == 0 && is_text(row(term, work))) {
    const std::vector<TermId> texts = texts_;
    bool found = false;
    for (std::size_t i = 0; i < texts.size() && !found && like_of_[term] == 0; ++i)
      found = compare(term, texts[i], work);
    if (like_of_.size() < terms_.size()) like_of_.resize(terms_.size(), 0);
    if (!found && !texts.empty()) like_of_[term] = kUnlike;
  }
  return likenesses_[like_of_[term]];
}

// Whether it is known that no token below a node tells the two apart.
bool Lexicon::alike_below(TermId term, TermId wider, std::uint32_t node) const {
  if (term >= like_of_.size()) return false;
  const Likeness& like = likenesses_[like_of_[term]];
  if (like.wider != wider) return false;
  if (trie_->height(node) <= like.alike) return true;
  return (trie_->groups_below(node) & like.leaving) == 0 && (letters_below_[node] & like.leaving_letters) == 0;
}

// Letters of any case, and digits in pairs, as bits.
std::uint32_t Lexicon::letters_of(const ByteSet& bytes) {
  std::uint32_t found = 0;
  bytes.for_each([&](std::uint8_t b) {
    if (b >= '0' && b <= '9') found |= 1u << (26 + (b - '0') / 2);
    if ((group_of(b) & kWordGroups) != 0 && b >= 'A') found |= 1u << ((b | 0x20) - 'a');
  });
  return found;
}

// By node of the trie, the letters in the tokens below it.
void Lexicon::find_letters(Work& work) {
  if (!letters_below_.empty()) return;
  const Trie& trie = *trie_;
  std::array<std::uint32_t, 256> letter{};
  for (std::size_t b = 0; b < 256; ++b) {
    ByteSet one;
    one.add(static_cast<std::uint8_t>(b));
    letter[b] = letters_of(one);
  }
  letters_below_.assign(trie.size(), 0);
  std::vector<std::uint32_t> path{0};
  const auto close = [&] {
    const std::uint32_t node = path.back();
    path.pop_back();
    letters_below_[path.back()] |= letters_below_[node] | letter[trie.byte(node)];
  };
  for (std::uint32_t node = 1; node < trie.size(); ++node) {
    while (trie.end(path.back()) <= node) close();
    path.push_back(node);
  }
  while (path.size() > 1) close();
  work.spend(trie.size() / 4);
}

// Two terms, and all that they come to by the same bytes, as pairs. The first is the two themselves.
struct Lexicon::Pairs {
  struct Edge {
    std::uint32_t from, to;
    ByteSet bytes;
  };
  std::vector<std::pair<TermId, TermId>> all;
  std::vector<ByteSet> unlike;  // by pair: the bytes by which only the other one goes on
  std::vector<bool> in_words;   // by pair: whether letters and digits alone lead to it
  std::vector<Edge> edges;
};

// False where the text does not accept all that the term does, where they come to too many states, or where it is soon
// plain that they are not much alike.
bool Lexicon::find_pairs(TermId term, TermId text, Pairs& pairs, Work& work) {
  constexpr std::size_t kMostPairs = 1024;
  pairs.all = {{term, text}};
  pairs.in_words = {true};
  StepMap seen;
  seen.insert(term, text, 0);
  for (std::uint32_t i = 0; i < pairs.all.size(); ++i) {
    const auto [mine, other] = pairs.all[i];
    if (terms_[mine].nullable && !terms_[other].nullable) return false;
    const Row &my_row = row(mine, work), &other_row = row(other, work);
    pairs.unlike.emplace_back();
    const std::size_t first_edge = pairs.edges.size();
    std::pair last{kNever, kNever};
    std::size_t edge = 0;  // to the last one
    for (std::size_t b = 0; b < 256; ++b) {
      const auto byte = static_cast<std::uint8_t>(b);
      const std::pair next{my_row.next[b], other_row.next[b]};
      if (next.first == next.second) continue;
      if (next.first == kNever) {
        pairs.unlike[i].add(byte);
        continue;
      }
      if (next != last) {
        if (next.second == kNever) return false;
        last = next;
        std::uint32_t to = seen.find(next.first, next.second);
        if (to == kNone) {
          to = static_cast<std::uint32_t>(pairs.all.size());
          if (to == kMostPairs) {
            // Nor are the states that it comes to tried again.
            if (like_of_.size() < terms_.size()) like_of_.resize(terms_.size(), 0);
            for (const auto& pair : pairs.all)
              if (like_of_[pair.first] == 0) like_of_[pair.first] = kUnlike;
            return false;
          }
          seen.insert(next.first, next.second, to);
          pairs.all.push_back(next);
          pairs.in_words.push_back(false);
        }
        for (edge = first_edge; edge < pairs.edges.size() && pairs.edges[edge].to != to;) ++edge;
        if (edge == pairs.edges.size()) pairs.edges.push_back({i, to, {}});
      }
      pairs.edges[edge].bytes.add(byte);
      if (pairs.in_words[i] && (group_of(byte) & kWordGroups) != 0) pairs.in_words[pairs.edges[edge].to] = true;
    }
    // Then all the pairs before it will be put aside (compare), and the two differ too much.
    const Groups unlike = groups_of(pairs.unlike[i]);
    if (pairs.in_words[i] && (unlike & kWordGroups) != 0 && std::popcount(unlike) > kMostUnlike) return false;
    work.spend(32 + pairs.edges.size() - first_edge);
  }
  return true;
}

// Mostly, nearly every byte leads on to one of the pairs, and from that back to itself. For each pair, the bytes by
// which it is left for others: where none of them comes, nothing tells the two apart.
std::vector<ByteSet> Lexicon::leaving_home(const Pairs& pairs) {
  std::size_t home = 0;
  int most = 0;
  for (const Pairs::Edge& edge : pairs.edges)
    if (edge.from == edge.to && edge.bytes.count() > most) {
      home = edge.from;
      most = edge.bytes.count();
    }
  std::vector<ByteSet> leaving = pairs.unlike;
  for (const Pairs::Edge& edge : pairs.edges)
    if (edge.to != home && edge.to != edge.from) leaving[edge.from] |= edge.bytes;
  for (ByteSet& bytes : leaving) bytes |= leaving[home];
  return leaving;
}

// False where the text does not accept all that the term does, where they come to too many states, or where they are
// not much alike.
//
// Below a node without a byte that tells the two apart they are the same. Nearly every token has letters, though. So
// the pairs that a letter tells apart are put aside, and the bytes that lead to them tell apart instead: where a slash
// is left out, the backslash before `u002f`, and not the `f`.
bool Lexicon::compare(TermId term, TermId text, Work& work) {
  Pairs pairs;
  if (!find_pairs(term, text, pairs, work)) return false;
  const std::size_t count = pairs.all.size();
  std::ranges::sort(pairs.edges, {}, &Pairs::Edge::to);
  std::vector<bool> is_aside(count);
  std::vector<ByteSet> unlike = pairs.unlike;
  std::vector<std::uint32_t> aside;
  const auto look_at = [&](std::uint32_t pair) {
    if (is_aside[pair] || (groups_of(unlike[pair]) & kWordGroups) == 0) return;
    is_aside[pair] = true;
    aside.push_back(pair);
  };
  for (std::uint32_t i = 0; i < count; ++i) look_at(i);
  for (std::size_t next = 0; next < aside.size(); ++next)
    for (const Pairs::Edge& edge : std::ranges::equal_range(pairs.edges, aside[next], {}, &Pairs::Edge::to)) {
      unlike[edge.from] |= edge.bytes;
      look_at(edge.from);
    }
  work.spend(count + 4 * pairs.edges.size());
  // From the bytes that tell them apart backwards.
  std::vector<std::uint32_t> alike(count, kNone), reached;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!pairs.unlike[i].empty()) {
      alike[i] = 0;
      reached.push_back(i);
    }
  for (std::size_t next = 0; next < reached.size(); ++next)
    for (const Pairs::Edge& edge : std::ranges::equal_range(pairs.edges, reached[next], {}, &Pairs::Edge::to))
      if (alike[edge.from] == kNone) {
        alike[edge.from] = alike[edge.to] + 1;
        reached.push_back(edge.from);
      }
  const bool is_apart = !aside.empty() && !is_aside[0];
  ByteSet all, near;
  for (std::uint32_t i = 0; i < count; ++i) {
    all |= pairs.unlike[i];
    if (!is_aside[i]) near |= unlike[i];
  }
  const Groups groups = groups_of(is_apart ? near : all);
  if (std::popcount(groups) > kMostUnlike) return false;
  const std::vector<ByteSet> leaving = leaving_home(pairs);
  find_letters(work);
  if (like_of_.size() < terms_.size()) like_of_.resize(terms_.size(), 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto [mine, other] = pairs.all[i];
    if (like_of_[mine] > kUnlike || mine == other || (is_apart && is_aside[i])) continue;
    like_of_[mine] = static_cast<std::uint32_t>(likenesses_.size());
    likenesses_.push_back({.wider = other,
                           .unlike = groups,
                           .until = is_apart,
                           .alike = alike[i],
                           .leaving = groups_of(leaving[i]) & ~kWordGroups,
                           .leaving_letters = letters_of(leaving[i])});
  }
  return true;
}

}  // namespace narrows
