// Records that are made from the record of a wider term: only where the two differ is the trie walked. Sound because the
// wider one accepts all that this one does, so tokens are only taken away.
//
// Cost: what a mask has bits for, and a step for each node that is visited.
#include <algorithm>
#include <iterator>

#include "automata/lexicon.hpp"
#include "sort_ids.hpp"

namespace narrows {

namespace {
constexpr std::uint32_t kFewChildren = 6;  // a row takes as long as so many steps

// Units of work, for what the states of a text and of a counter are together.
constexpr std::uint64_t kPair = 8, kIntersect = 32;
}  // namespace

// A record that is being made: what the wider one has, less what is taken away.
class Lexicon::Beside {
 public:
  Beside(Lexicon& lexicon, const Inside& known, Inside& made, Work& work)
      : lexicon_(lexicon),
        known_(known),
        known_crossings_(lexicon.inside(known.crossings_of, work).crossings),
        made_(made),
        work_(work),
        crossing_(known_crossings_.begin()) {
    lexicon_.load(known_);
    made_.lacks = known_.lacks;
    made_.deepest = known_.deepest;
  }

  bool has(std::uint32_t token) const { return ((lexicon_.scratch_[token >> 5] >> (token & 31)) & 1) != 0; }

  void take_away(std::span<const std::uint32_t> tokens) {
    work_.spend(tokens.size() / 4);
    for (std::uint32_t t : tokens) {
      if (!has(t)) continue;
      lexicon_.scratch_[t >> 5] ^= 1u << (t & 31);
      made_.lacks.push_back(t);
    }
  }

  // The crossings of the wider term at nodes before `until`, which are visited in order.
  void pass_crossings(std::uint32_t until, bool kept) {
    for (; crossing_ != known_crossings_.end() && *crossing_ < until; ++crossing_)
      if (kept) made_.crossings.push_back(*crossing_);
  }
  bool crosses_before(std::uint32_t until) const { return crossing_ != known_crossings_.end() && *crossing_ < until; }

  void finish(std::uint64_t visited) {
    sort_ids(made_.crossings, lexicon_.trie_->size());
    lexicon_.share_crossings(made_, known_.crossings_of, work_);
    work_.spend(4 * visited + lexicon_.mask_words_ / 8);
    if (known_.dense == kNone) {
      std::ranges::copy_if(known_.tokens, std::back_inserter(made_.tokens), [&](std::uint32_t t) { return has(t); });
      made_.lacks = {};
    } else if (made_.lacks.size() <= lexicon_.mask_words_ / 4) {
      sort_ids(made_.lacks, 32 * lexicon_.mask_words_);
      made_.dense = known_.dense;
    } else {
      work_.spend(lexicon_.mask_words_ / 8);
      made_.lacks = {};
      made_.dense = lexicon_.keep_dense();
    }
  }

 private:
  Lexicon& lexicon_;
  const Inside& known_;
  const std::vector<std::uint32_t>& known_crossings_;
  Inside& made_;
  Work& work_;
  std::vector<std::uint32_t>::const_iterator crossing_;
};

// No token below the node tells the two apart. Of an intersection: none is so long that a bound on it matters. Of a
// counter: none is long enough to use it up, and either it has no lower bound to meet or none has a byte that leaves
// it. Of several counters: none is long enough to use one up, and their lower bounds are the same.
bool Lexicon::same_below(TermId term, TermId wider, std::uint64_t way, std::uint32_t node, Work& work) {
  if (way != kNoBound) {
    const Terms::Recounted without = terms_.without_bounds(term);
    return without.term == wider && trie_->height(node) + way <= without.room;
  }
  if (!terms_[term].plain) return without_most(term, trie_->height(node), work) == wider;
  const Terms::Count count = terms_.count_apart(term, wider);
  if (!count.found) {
    const Unbounded without = uncounted(term, work);
    return without.wider == wider && trie_->height(node) <= without.room;
  }
  if (trie_->height(node) > count.room) return false;
  return count.same_min || (trie_->groups_below(node) & row(count.rest, work).first_groups) == 0;
}

// A step that the records of the next counts take again: after each character of a text, long tokens lead to states that
// differ by one from those before.
TermId Lexicon::step_beside(TermId term, std::uint8_t byte, Work& work) {
  if (has_row(term)) return row(term, work).next[byte];
  if (const TermId known = steps_beside_.find(term, byte); known != kNone) return known;
  const TermId next = step_once(term, byte, work);
  steps_beside_.insert(term, byte, next);
  return next;
}

// The same beside a wider term whose mask is known: only where the two differ is the trie walked. Sound because the
// wider one accepts all that this one does, so tokens are only taken away. False where the two differ at more than
// `most` nodes: then nothing is made.
bool Lexicon::walk_beside(TermId start, const Likeness& like, std::uint32_t most, Inside& made, Work& work) {
  const Trie& trie = *trie_;
  const TermId wider = like.wider;
  Beside beside(*this, inside(wider, work), made, work);
  struct Open {
    std::uint32_t end;
    TermId term;
    const Row* row;  // none of a passing term, and where few bytes go on
    ByteSet apart;
    const Row* wider_row;
    bool is_beyond;  // nothing is known of how they differ
  };
  std::vector<std::uint32_t> candidates;
  std::vector<Open> path;
  const auto enter = [&](std::uint32_t node, std::uint32_t end, TermId term, TermId wide, bool is_beyond) {
    const bool passes = is_passing(term, work);
    std::uint32_t children = 0;
    for (std::uint32_t child = node + 1; child < end && children < kFewChildren; child = trie.end(child)) ++children;
    path.push_back({end, term, passes || children < kFewChildren ? nullptr : &row(term, work),
                    passes ? apart(term, wide, work) : ByteSet::all(), &row(wide, work), is_beyond});
  };
  enter(0, trie.size(), start, wider, false);
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    if (++visited > most) {
      work.spend(4 * visited);
      return false;
    }
    const std::uint8_t byte = trie.byte(node);
    const std::uint32_t end = trie.end(node);
    const TermId wide = path.back().wider_row->next[byte];
    if (wide == kNever) {
      node = end;
      continue;
    }
    const Open& at = path.back();
    const TermId next = !at.apart.has(byte) ? wide
                        : at.row != nullptr ? at.row->next[byte]
                                            : step_beside(at.term, byte, work);
    if (next == kNever) {
      beside.take_away(trie.tokens_below(node));
      beside.pass_crossings(end, false);
      node = end;
      continue;
    }
    const bool is_beyond = at.is_beyond || (like.until && ((like.unlike >> kByteGroups[byte]) & 1) != 0);
    const auto is_like = [&] {
      beside.pass_crossings(node, false);
      const bool is_known = (trie.groups_below(node) & like.unlike) == 0 || alike_below(next, wide, node);
      return !is_beyond && is_known && !beside.crosses_before(end);
    };
    if (next == wide || is_like() || same_below(next, wide, like.way, node, work)) {
      beside.pass_crossings(end, true);
      node = end;
      continue;
    }
    beside.pass_crossings(node + 1, false);
    if (end > node + 1) {
      if (terms_[next].nullable) candidates.push_back(node);
      enter(node, end, next, wide, is_beyond);
    }
    ++node;
  }
  for (std::uint32_t node : candidates) {
    const auto below = trie.tokens_below(node).subspan(trie.tokens_at(node).size());
    if (!std::ranges::all_of(below, [&](std::uint32_t t) { return beside.has(t); })) made.crossings.push_back(node);
  }
  beside.finish(visited);
  return true;
}

// A text beside a greatest number of its characters: what it is without that number, the counter, and what closes it;
// nothing where the term is something else. Within `way` bytes the text can be ended, wherever in it that is.
//
// The text may be found anywhere (all_go_on), and may then have a least number, too. Or it is a plain term of such
// characters.
Lexicon::Within Lexicon::within(TermId term, Work& work) {
  constexpr std::size_t kMostParts = 8;
  const auto [both, rest] = intersection(term);
  if (both == kNever || terms_[rest].op == Op::cat || terms_[rest].nullable) return {};
  const std::vector<TermId> parts(terms_.parts(both).begin(), terms_.parts(both).end());
  work.spend(16 * parts.size());
  if (parts.size() > kMostParts) return {};
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Bound bound = bound_of(parts[k]);
    if (bound.any == kNone || !is_any_text(bound.items, work) || !is_state(bound.any, bound.items, work)) continue;
    if (!can_be_counted(terms_[bound.items].a, rest, work)) continue;
    std::vector<TermId> others = parts;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    Within found{.text = terms_.both(others), .counter = parts[k], .rest = rest, .bound = bound, .way = 0};
    if (std::ranges::all_of(others, [&](TermId other) { return terms_[other].plain; }) &&
        all_go_on(others, bound.any, rest, found.way, work))
      return found;
    if (others.size() > 1 || bound.min > 0 || !terms_[found.text].plain) continue;
    if (!holds_only(found.text, bound.items, bound.any, work)) continue;
    found.way = longest_way_in(found.text, bound, work);
    return found;
  }
  return {};
}

// The same of any text beside counters, whatever bytes an end takes: each state is asked. A text that never goes round,
// as one that has other counters, has as many states as together with these.
Lexicon::Within Lexicon::within_counts(TermId term, Work& work) {
  const CountedText found = counted_text(term, work);
  if (found.text == kNone || terms_[found.rest].op == Op::cat || terms_[found.rest].nullable) return {};
  if (!can_be_counted(terms_[found.state.between].a, found.rest, work)) return {};
  const TermId wider = terms_.cat(found.text, found.rest);
  if (terms_.without_bounds(wider).term != wider || !goes_round_soon(wider, work)) return {};
  return {.text = found.text,
          .counter = found.counter,
          .rest = found.rest,
          .bound = {.any = found.state.now, .items = found.state.between, .min = found.min, .max = found.max}};
}

// The same for a text of many states beside a greatest number, near to that number. The two parts are followed on their
// own, for together they have a state for each number. A subtree is left as soon as no token in it is long enough.
bool Lexicon::walk_within(const Within& start, Inside& made, Work& work) {
  if (start.text == kNone) return false;
  // Few states take less with their rows, and over the coarse trie.
  const std::vector<TermId> texts = terms_.split(start.text, Op::both);
  if (std::ranges::all_of(texts, [&](TermId text) { return has_few_states(text, work); })) return false;
  const Trie& trie = *trie_;
  const TermId wider = terms_.cat(start.text, start.rest);
  if (!may_ask_for(wider, work)) return false;
  const Inside& known = inside(wider, work);
  if (known.dense == kNone) return false;
  Beside beside(*this, known, made, work);
  const bool is_asked = start.way == kNoBound;
  const ByteSet close = first(start.rest, work);
  const Groups closing = groups_of(close);
  StepMap counts_of;  // by state of the counter
  struct Numbers {
    std::uint64_t min = 0, max = kNone;
    bool is_known = true;  // a single item that is left is no counter
  };
  std::vector<Numbers> counts;
  const auto left = [&](TermId counter) -> const Numbers& {
    std::uint32_t at = counts_of.find(counter, 0);
    if (at == kNone) {
      at = static_cast<std::uint32_t>(counts.size());
      Numbers found;
      for (const TermId part : terms_.split(counter, Op::both)) {
        const Bound bound = bound_of(part, true);
        found.is_known = found.is_known && (bound.any != kNone || part == kEmpty);
        found.min = std::max(found.min, bound.min);
        found.max = std::min(found.max, bound.any == kNone ? 0 : bound.max);
      }
      counts.push_back(found);
      counts_of.insert(counter, 0, at);
    }
    return counts[at];
  };
  const auto ask = [&](TermId text, TermId counter, TermId now) {
    const Numbers& bound = left(counter);
    const bool goes_on = start.bound.min > 0 || !terms_[text].plain;  // all_go_on
    const std::uint64_t enough = is_asked  ? kNoBound
                                 : goes_on ? start.way
                                           : std::min(start.way, terms_.shortest_length(text));
    if (bound.max >= enough) return true;
    const CounterState state{now, start.bound.items};
    const Life life = bound.is_known ? known_end(text, state, bound.min, bound.max) : Life::unknown;
    if (life != Life::unknown) return life == Life::alive;
    work.spend(kIntersect);
    return alive(terms_.cat(terms_.both(std::vector<TermId>{text, counter}), start.rest), work);
  };
  StepMap alive_of;  // by states of the two: most nodes lead to few
  const auto is_alive = [&](TermId text, TermId counter, TermId now) {
    if (const std::uint32_t before = alive_of.find(text, counter); before != kNone) return before != 0;
    work.spend(kPair);
    const bool found = ask(text, counter, now);
    alive_of.insert(text, counter, found ? 1 : 0);
    return found;
  };
  // No token below the node is so long that the counters matter.
  const auto is_far = [&](TermId counter, std::uint32_t node) {
    const Numbers& bound = left(counter);
    const std::uint64_t way = is_asked ? known.way : start.way;
    if (way >= bound.max || (is_asked && bound.min > 0)) return false;
    return bound.max - way >= trie.height(node);
  };
  struct Open {
    std::uint32_t end;
    TermId text, counter;
    const Row *text_row, *counter_row, *now_row;
  };
  std::vector<Open> path;
  const auto enter = [&](std::uint32_t end, TermId text, TermId counter, TermId now) {
    path.push_back({end, text, counter, &raw_row(text, work), &row(counter, work), &row(now, work)});
  };
  enter(trie.size(), start.text, start.counter, start.bound.any);
  std::uint64_t visited = 0;
  for (std::uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    const Open& at = path.back();
    const std::uint8_t byte = trie.byte(node);
    const std::uint32_t end = trie.end(node);
    ++visited;
    const TermId text = at.text_row->next[byte], counter = at.counter_row->next[byte], now = at.now_row->next[byte];
    bool is_same = true;  // below the node
    bool is_out = false;
    if (text == kNever) {
      is_out = terms_[at.text].nullable && !terms_[at.counter].nullable && close.has(byte);
    } else {
      is_out = counter == kNever || !is_alive(text, counter, now);
      const bool may_close = counter == kNever || terms_[counter].nullable || (trie.groups_below(node) & closing) == 0;
      is_same = end == node + 1 || (!is_out && may_close && is_far(counter, node));
    }
    if (is_out) beside.take_away(trie.tokens_below(node));
    if (is_out || is_same) {
      beside.pass_crossings(end, !is_out);
      node = end;
      continue;
    }
    beside.pass_crossings(node + 1, false);
    enter(end, text, counter, now);
    ++node;
  }
  beside.finish(visited);
  return true;
}

}  // namespace narrows
