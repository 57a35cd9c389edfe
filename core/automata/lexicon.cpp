#include "automata/lexicon.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <iterator>

namespace narrows {

Lexicon::Lexicon(std::shared_ptr<const Trie> trie, std::uint32_t mask_words, std::uint64_t most_bytes)
    : trie_(std::move(trie)), mask_words_(mask_words), most_bytes_(most_bytes) {}

void Lexicon::check_memory() const {
  if (bytes() > most_bytes_) limit_reached("constraint_bytes", "one call needs more memory than the limit allows");
}

Lexicon::Row& Lexicon::raw_row(TermId term, Work& work) {
  if (row_of_.size() <= term) row_of_.resize(terms_.size(), kNone);
  if (row_of_[term] != kNone) return *rows_[row_of_[term]];
  work.spend(48);
  check_memory();
  auto made = std::make_unique<Row>();
  made->next.fill(kNever);
  const bool of_parts = row_of_parts(term, *made, work);
  for (ByteSet open = of_parts ? ByteSet{} : ByteSet::all(); !open.empty();) {
    ByteSet same = open;
    const TermId next = terms_.derivative(term, open.first(), same, work);
    open &= ~same;
    if (next == kNever) continue;
    same.for_each([&](std::uint8_t b) { made->next[b] = next; });
    made->first |= same;
  }
  if (row_of_.size() <= term) row_of_.resize(terms_.size(), kNone);
  row_of_[term] = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back(std::move(made));
  return *rows_.back();
}

// The row of an intersection or a complement, and of what begins with one, from the rows of its parts: these are shared
// by all the combinations that the parts come in. False for any other term, and where a great counter is in it: its
// states come once.
bool Lexicon::row_of_parts(TermId term, Row& made, Work& work) {
  if (terms_[term].plain || terms_.relax(term) != term) return false;
  const Term t = terms_[term];
  std::vector<TermId> parts;
  if (t.op == Op::both) {
    parts.assign(terms_.parts(term).begin(), terms_.parts(term).end());
  } else if (t.op == Op::complement) {
    parts.push_back(t.a);
  } else if (t.op == Op::cat && !terms_[t.a].plain) {
    parts.push_back(t.a);
    if (terms_[t.a].nullable) parts.push_back(t.b);
  } else {
    return false;
  }
  std::vector<const Row*> rows;
  for (TermId part : parts) rows.push_back(&raw_row(part, work));  // they do not move
  std::vector<TermId> next(parts.size()), last(parts.size(), kNone);
  TermId to = kNever;
  std::uint32_t runs = 0;
  for (std::size_t b = 0; b < 256; ++b) {
    for (std::size_t i = 0; i < rows.size(); ++i) next[i] = rows[i]->next[b];
    if (next != last) {
      last = next;
      ++runs;
      if (t.op == Op::both) {
        to = std::ranges::find(next, kNever) == next.end() ? terms_.both(next) : kNever;
      } else if (t.op == Op::complement) {
        to = terms_.complement(next[0]);
      } else {
        to = terms_.cat(next[0], t.b);
        if (next.size() == 2) to = terms_.alt(std::vector<TermId>{to, next[1]});
      }
    }
    made.next[b] = to;
    if (to != kNever) made.first.add(static_cast<std::uint8_t>(b));
  }
  work.spend(64 + 16 * runs);
  return true;
}

Lexicon::Row& Lexicon::row(TermId term, Work& work) {
  Row& r = raw_row(term, work);
  if (r.final) return r;
  work.spend(32);
  if (!terms_[term].plain) {
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
  }
  ByteSet loops;
  r.first.for_each([&](std::uint8_t b) {
    r.first_groups |= Groups{1} << byte_groups()[b];
    if (r.next[b] == term) loops.add(b);
  });
  if (!loops.empty()) {
    r.loops = ~Groups{0};
    (~loops).for_each([&](std::uint8_t b) { r.loops &= ~(Groups{1} << byte_groups()[b]); });
  }
  r.final = true;
  return r;
}

// An intersection with many texts, such as all names but some: a text mostly passes through its states once, so their
// rows are not kept.
bool Lexicon::is_passing(TermId term, Work& work) {
  return terms_[term].op == Op::both && (term >= row_of_.size() || row_of_[term] == kNone) &&
         (terms_.endless(term, work) || terms_.outnumbers(term));
}

// The bytes after which a term and its wider form may differ. If the term is the wider one without some texts, these
// are the bytes that may come next in those texts.
ByteSet Lexicon::apart(TermId term, TermId wider, Work& work) {
  const auto parts = terms_.parts(term);
  if (parts.size() != 2 || std::ranges::find(parts, wider) == parts.end()) return ByteSet::all();
  const Term& other = terms_[parts[parts[0] == wider ? 1 : 0]];
  if (other.op != Op::complement) return ByteSet::all();
  const TermId less = other.a;
  ByteSet found;
  for (ByteSet open = ByteSet::all(); !open.empty();) {
    ByteSet same = open;
    const bool goes_on = terms_.derivative(less, open.first(), same, work) != kNever;
    open &= ~same;
    if (goes_on) found |= same;
  }
  return found;
}

TermId Lexicon::step(TermId term, std::uint8_t byte, Work& work) {
  if (term < row_of_.size() && row_of_[term] != kNone) return row(term, work).next[byte];
  if (!terms_[term].plain && !is_passing(term, work)) return row(term, work).next[byte];
  // A counter passes through each of its states once: a whole row for each would be wasted.
  ByteSet same = ByteSet::all();
  const TermId next = terms_.derivative(term, byte, same, work);
  return alive(next, work) ? next : kNever;
}

const ByteSet& Lexicon::first(TermId term, Work& work) { return row(term, work).first; }

Lexicon::Life Lexicon::known_life(TermId term) const {
  const Term& t = terms_[term];
  if (term == kNever) return Life::dead;
  if (t.plain || t.nullable) return Life::alive;
  return term < life_.size() ? life_[term] : Life::unknown;
}

void Lexicon::mark_dead(TermId term) {
  if (life_.size() < terms_.size()) life_.resize(terms_.size(), Life::unknown);
  life_[term] = Life::dead;
}

// `towards` leads to a state that is alive already, and so all of them together to an accepting one.
void Lexicon::mark_alive(TermId term, std::uint8_t towards) {
  if (known_life(term) == Life::alive) return;
  if (life_.size() < terms_.size()) life_.resize(terms_.size(), Life::unknown);
  if (towards_.size() < terms_.size()) towards_.resize(terms_.size());
  life_[term] = Life::alive;
  towards_[term] = towards;
}

bool Lexicon::alive(TermId term, Work& work) {
  if (const Life known = known_life(term); known != Life::unknown) return known == Life::alive;
  if (terms_.endless(term, work) || terms_.outnumbers(term)) return true;
  return !plainly_dead(term, work) && (known_life(term) == Life::alive || search(term, false, work));
}

// Whether the term accepts nothing even without the bounds of great counters. Without this check, a pattern that can no
// longer match would make the search visit all pairs of states of two counters.
bool Lexicon::plainly_dead(TermId term, Work& work) {
  const TermId relaxed = terms_.relax(term);
  const Life known = known_life(relaxed);
  if (known == Life::alive || (known == Life::unknown && search(relaxed, true, work))) return false;
  mark_dead(term);
  return true;
}

// Whether the term itself accepts a text of its relaxed form, as it mostly does. Then the states on the way are alive.
bool Lexicon::witnessed(TermId term, Work& work) {
  std::vector<std::uint8_t> text;
  for (TermId guide = terms_.relax(term); !terms_[guide].nullable;) {
    if (terms_.shortest(guide, text, work)) break;
    const std::uint8_t byte = towards_[guide];
    text.push_back(byte);
    guide = raw_row(guide, work).next[byte];
  }
  std::vector<TermId> path;
  TermId at = term;
  while (path.size() < text.size() && known_life(at) == Life::unknown) {
    path.push_back(at);
    ByteSet same = ByteSet::all();
    at = terms_.derivative(at, text[path.size() - 1], same, work);
  }
  if (known_life(at) != Life::alive) return false;
  for (; !path.empty(); path.pop_back()) mark_alive(path.back(), text[path.size() - 1]);
  return true;
}

// States that were met on the way to an accepting one, the most promising next: by the length that its texts have at
// least, and with `shortest` by that of the whole text.
class Lexicon::Frontier {
 public:
  struct Seen {
    TermId term;
    std::uint32_t from;
    std::uint32_t depth;
    std::uint8_t byte;
  };
  Frontier(Terms& terms, TermId start, bool shortest) : terms_(terms), shortest_(shortest) {
    push({start, kNone, 0, 0});
  }
  bool is_new(TermId id) {
    const std::uint64_t hash = mix(3, id);
    if (ids_.find(hash, [&](std::uint32_t other) { return other == id; }) != kNone) return false;
    ids_.insert(hash, id);
    return true;
  }
  void push(const Seen& seen) {
    const std::uint64_t left = terms_.shortest_length(seen.term);
    open_.push_back({left + (shortest_ ? seen.depth : 0), left, static_cast<std::uint32_t>(seen_.size())});
    std::ranges::push_heap(open_, std::greater<>{});
    seen_.push_back(seen);
  }
  // kNone when all have been taken.
  std::uint32_t pop() {
    if (open_.empty()) return kNone;
    std::ranges::pop_heap(open_, std::greater<>{});
    const std::uint32_t at = open_.back().index;
    open_.pop_back();
    return at;
  }
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  struct Open {
    std::uint64_t total, left;
    std::uint32_t index;
    auto operator<=>(const Open&) const = default;
  };
  Terms& terms_;
  bool shortest_;
  std::vector<Seen> seen_;
  std::vector<Open> open_;
  IdTable ids_;
};

// All states on the way to an accepting one are alive. If there is none, all that were seen are dead. `is_relaxed`: the
// term is its own relaxed form; else the relaxed form of each state that is met is known to be alive.
bool Lexicon::search(TermId term, bool is_relaxed, Work& work) {
  Frontier frontier(terms_, term, false);
  frontier.is_new(term);
  const auto all_alive = [&](std::uint32_t at) {
    for (; frontier.seen()[at].from != kNone; at = frontier.seen()[at].from)
      mark_alive(frontier.seen()[frontier.seen()[at].from].term, frontier.seen()[at].byte);
    return true;
  };
  for (std::uint32_t at = frontier.pop(); at != kNone; at = frontier.pop()) {
    const TermId here = frontier.seen()[at].term;
    const std::uint32_t depth = frontier.seen()[at].depth + 1;
    if (!is_relaxed && witnessed(here, work)) return all_alive(at);
    const Row& r = raw_row(here, work);
    TermId last = kNone;
    for (std::size_t b = 0; b < 256; ++b) {
      const TermId next = r.next[b];
      if (next == kNever || next == last) continue;
      last = next;
      Life life = known_life(next);
      if (life == Life::unknown) {
        if (!frontier.is_new(next) || (!is_relaxed && plainly_dead(next, work))) continue;
        life = known_life(next);
      }
      if (life == Life::alive) {
        mark_alive(here, static_cast<std::uint8_t>(b));
        return all_alive(at);
      }
      if (life == Life::unknown) frontier.push({next, at, depth, static_cast<std::uint8_t>(b)});
    }
    work.spend(48);
  }
  for (const auto& seen : frontier.seen()) mark_dead(seen.term);
  return false;
}

void Lexicon::shortest(TermId term, std::vector<std::uint8_t>& out, Work& work) {
  if (terms_.shortest(term, out, work)) return;
  Frontier frontier(terms_, term, true);
  for (std::uint32_t at = frontier.pop(); at != kNone; at = frontier.pop()) {
    const TermId here = frontier.seen()[at].term;
    if (!frontier.is_new(here)) continue;
    if (terms_[here].nullable) {
      std::vector<std::uint8_t> reversed;
      for (std::uint32_t i = at; frontier.seen()[i].from != kNone; i = frontier.seen()[i].from)
        reversed.push_back(frontier.seen()[i].byte);
      out.insert(out.end(), reversed.rbegin(), reversed.rend());
      return;
    }
    const Row& r = row(here, work);
    const std::uint32_t depth = frontier.seen()[at].depth + 1;
    TermId last = kNone;
    for (std::size_t b = 0; b < 256; ++b) {
      const TermId next = r.next[b];
      if (next != kNever && next != last) frontier.push({next, at, depth, static_cast<std::uint8_t>(b)});
      last = next;
    }
    work.spend(48);
  }
}

std::uint64_t Lexicon::shortest_length(TermId term, Work& work) {
  if (terms_[term].plain) return terms_.shortest_length(term);
  if (const std::uint32_t known = lengths_.find(term, 0); known != kNone) return known;
  std::vector<std::uint8_t> text;
  shortest(term, text, work);
  lengths_.insert(term, 0, static_cast<std::uint32_t>(text.size()));
  return text.size();
}

const Inside& Lexicon::inside(TermId term, Work& work) {
  const TermId id = terms_.clamp(term, trie_->longest_token());
  if (id < inside_.size() && inside_[id]) return *inside_[id];
  auto made = std::make_unique<Inside>();
  TermId wider = terms_.wider(id);
  const bool passing = wider != kNone && is_passing(id, work);
  while (wider != kNone && !passing && !terms_[wider].plain) wider = terms_.wider(wider);
  if (wider != kNone && (inside(wider, work).dense != kNone || passing)) {
    walk_beside(id, wider, *made, work);
  } else {
    walk(id, *made, work);
  }
  if (inside_.size() <= id) inside_.resize(terms_.size());
  if (made->crossings_of == kNever) made->crossings_of = id;
  for (auto* list : {&made->tokens, &made->lacks, &made->crossings}) {
    list->shrink_to_fit();
    inside_bytes_ += held(*list);
  }
  inside_bytes_ += sizeof(Inside) + kHeapBlock;
  ++inside_count_;
  crossing_count_ += made->crossings.size();
  inside_[id] = std::move(made);
  return *inside_[id];
}

// The whole trie, but for subtrees that the automaton cannot enter, or whose every byte leads back to the same state.
void Lexicon::walk(TermId start, Inside& made, Work& work) {
  const Trie& trie = *trie_;
  std::vector<std::uint32_t>& tokens = made.tokens;
  const auto add = [&](std::span<const std::uint32_t> some) { tokens.insert(tokens.end(), some.begin(), some.end()); };
  struct Open {
    std::uint32_t end;   // of the subtree
    std::uint32_t node;  // a crossing, if not all of the subtree turns out to stay inside; else kNone
    std::size_t before;  // tokens found before the subtree
    const Row* row;      // of the state at the node
  };
  std::uint32_t visited = 0;
  std::vector<Open> path{{trie.size(), kNone, 0, &row(start, work)}};
  const auto close = [&] {
    const Open& top = path.back();
    if (top.node != kNone) {
      const std::size_t below = trie.tokens_below(top.node).size() - trie.tokens_at(top.node).size();
      if (tokens.size() - top.before < below) made.crossings.push_back(top.node);
    }
    path.pop_back();
  };
  for (std::uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) close();
    ++visited;
    const TermId next = path.back().row->next[trie.byte(node)];
    const std::uint32_t end = trie.end(node);
    if (next == kNever) {
      node = end;
      continue;
    }
    if (end == node + 1) {
      add(trie.tokens_at(node));
      ++node;
      continue;
    }
    const Row& r = row(next, work);
    if ((trie.groups_below(node) & ~r.loops) == 0) {
      add(trie.tokens_below(node));
      node = end;
      continue;
    }
    add(trie.tokens_at(node));
    path.push_back({end, terms_[next].nullable ? node : kNone, tokens.size(), &r});
    ++node;
  }
  while (!path.empty()) close();
  std::ranges::sort(made.crossings);
  work.spend(2 * visited + tokens.size() / 4);
  if (tokens.size() <= mask_words_) {
    std::ranges::sort(tokens);
    return;
  }
  scratch_.assign(mask_words_, 0);
  for (std::uint32_t t : tokens) scratch_[t >> 5] |= 1u << (t & 31);
  made.dense = keep_dense();
  tokens.clear();
  tokens.shrink_to_fit();
}

// No token below the node tells the two apart: none is long enough to use up the counter, and either it has no lower
// bound to meet or none has a byte that leaves it.
bool Lexicon::same_below(TermId term, TermId wider, std::uint32_t node, Work& work) {
  const Terms::Count count = terms_.count_apart(term, wider);
  if (!count.found || trie_->height(node) > count.room) return false;
  return count.same_min || (trie_->groups_below(node) & row(count.rest, work).first_groups) == 0;
}

// The same beside a wider term whose mask is known: only where the two differ is the trie walked. Sound because the
// wider one accepts all that this one does, so tokens are only taken away.
void Lexicon::walk_beside(TermId start, TermId wider, Inside& made, Work& work) {
  const Trie& trie = *trie_;
  const Inside& known = inside(wider, work);
  const std::vector<std::uint32_t>& known_crossings = inside(known.crossings_of, work).crossings;
  if (known.dense != kNone) {
    const auto bits = dense(known.dense);
    scratch_.assign(bits.begin(), bits.end());
  } else {
    scratch_.assign(mask_words_, 0);
    for (std::uint32_t t : known.tokens) scratch_[t >> 5] |= 1u << (t & 31);
  }
  const auto has = [&](std::uint32_t t) { return ((scratch_[t >> 5] >> (t & 31)) & 1) != 0; };
  const auto take_away = [&](std::span<const std::uint32_t> tokens) {
    work.spend(tokens.size() / 4);
    for (std::uint32_t t : tokens) {
      if (!has(t)) continue;
      scratch_[t >> 5] ^= 1u << (t & 31);
      made.lacks.push_back(t);
    }
  };
  take_away(known.lacks);
  struct Open {
    std::uint32_t end;
    TermId term;
    const Row* row;  // none of a passing term
    ByteSet apart;
    const Row* wider_row;
  };
  std::vector<std::uint32_t> candidates;
  std::vector<Open> path;
  const auto enter = [&](std::uint32_t end, TermId term, TermId wide) {
    const bool passes = is_passing(term, work);
    path.push_back({end, term, passes ? nullptr : &row(term, work), passes ? apart(term, wide, work) : ByteSet::all(),
                    &row(wide, work)});
  };
  enter(trie.size(), start, wider);
  auto crossing = known_crossings.begin();
  const auto pass_crossings = [&](std::uint32_t until, bool kept) {
    for (; crossing != known_crossings.end() && *crossing < until; ++crossing)
      if (kept) made.crossings.push_back(*crossing);
  };
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    ++visited;
    const std::uint8_t byte = trie.byte(node);
    const std::uint32_t end = trie.end(node);
    const TermId wide = path.back().wider_row->next[byte];
    if (wide == kNever) {
      node = end;
      continue;
    }
    const Open& at = path.back();
    const TermId next = !at.apart.has(byte) ? wide : at.row != nullptr ? at.row->next[byte] : step(at.term, byte, work);
    if (next == kNever) {
      take_away(trie.tokens_below(node));
      pass_crossings(end, false);
      node = end;
      continue;
    }
    if (next == wide || same_below(next, wide, node, work)) {
      pass_crossings(end, true);
      node = end;
      continue;
    }
    pass_crossings(node + 1, false);
    if (end > node + 1) {
      if (terms_[next].nullable) candidates.push_back(node);
      enter(end, next, wide);
    }
    ++node;
  }
  for (std::uint32_t node : candidates) {
    const auto below = trie.tokens_below(node).subspan(trie.tokens_at(node).size());
    if (!std::ranges::all_of(below, has)) made.crossings.push_back(node);
  }
  std::ranges::sort(made.crossings);
  if (made.crossings == known_crossings) {
    made.crossings = {};
    made.crossings_of = known.crossings_of;
  }
  work.spend(4 * visited + mask_words_ / 8);
  if (known.dense == kNone) {
    std::ranges::copy_if(known.tokens, std::back_inserter(made.tokens), has);
    made.lacks = {};
  } else if (made.lacks.size() <= mask_words_ / 4) {
    std::ranges::sort(made.lacks);
    made.dense = known.dense;
  } else {
    work.spend(mask_words_ / 8);
    made.lacks = {};
    made.dense = keep_dense();
  }
}

std::uint32_t Lexicon::keep_dense() {
  dense_.insert(dense_.end(), scratch_.begin(), scratch_.end());
  return static_cast<std::uint32_t>(dense_.size() / mask_words_ - 1);
}

std::size_t Lexicon::bytes() const {
  return terms_.bytes() + held(row_of_) + held(rows_) + rows_.size() * (sizeof(Row) + kHeapBlock) + held(life_) +
         held(towards_) + held(inside_) + inside_bytes_ + lengths_.bytes() + held(dense_) + held(scratch_) +
         held(mask_bits_) + held(mask_tokens_);
}

}  // namespace narrows
