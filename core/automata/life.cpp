// Which states can still be ended, and what ends them the soonest. A plain term always can; of an intersection or a
// complement it must be found out.
//
// Cost: mostly a few steps, along a text that ended another state. Else a search, which is kept: all that it meets are
// then known to be alive, or not to be.
#include <algorithm>
#include <compare>
#include <functional>
#include <utility>

#include "automata/lexicon.hpp"

namespace narrows {

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

// `byte` leads to a state that is alive already, and so all of them together to an accepting one.
void Lexicon::mark_alive(TermId term, std::uint8_t byte, TermId next) {
  if (known_life(term) == Life::alive) return;
  const std::uint64_t way = known_way(next) + 1;
  if (life_.size() < terms_.size()) life_.resize(terms_.size(), Life::unknown);
  if (towards_.size() < terms_.size()) towards_.resize(terms_.size());
  life_[term] = Life::alive;
  towards_[term] = {byte, static_cast<std::uint16_t>(std::min<std::uint64_t>(way, kNoWay))};
}

// How many bytes end a text of a state that is alive, as far as a way is known.
std::uint64_t Lexicon::known_way(TermId term) {
  if (terms_[term].nullable) return 0;
  if (terms_[term].plain) return terms_.shortest_length(term);
  const bool is_known = term < life_.size() && life_[term] == Life::alive;
  return is_known ? towards_[term].way : kNoWay;
}

bool Lexicon::alive(TermId term, Work& work) {
  if (const Life known = known_life(term); known != Life::unknown) return known == Life::alive;
  if (leaves_some(term, work)) return true;
  if (const TermId without = without_most(term, 0, work); without != kNone) return alive(without, work);
  if (all_until_closed(term, work).wider != kNone) return true;
  if (!lefts_.empty() && life_by_items(term, false, work) == Life::dead) return false;
  for (auto text = found_.begin(); text != found_.end(); ++text) {
    if (!accepts(term, *text, work)) continue;
    std::rotate(found_.begin(), text, text + 1);
    return true;
  }
  if (plainly_dead(term, work)) return false;
  if (known_life(term) == Life::alive) return true;
  const Life found = life_by_items(term, true, work);
  if (found == Life::dead || (found == Life::unknown && !search(term, false, work))) return false;
  constexpr std::size_t kMostFound = 8;
  if (std::vector<std::uint8_t> text = way_out(term, work); !text.empty()) {
    if (found_.size() == kMostFound) found_.pop_back();
    found_.insert(found_.begin(), std::move(text));
  }
  return true;
}

// Whether the term accepts nothing even without the bounds of great counters. Without this check, a pattern that can no
// longer match would make the search visit all pairs of states of two counters.
bool Lexicon::plainly_dead(TermId term, Work& work) {
  const TermId relaxed = terms_.loosen(term);
  const Life known = known_life(relaxed);
  if (known == Life::alive || (known == Life::unknown && search(relaxed, true, work))) return false;
  mark_dead(term);
  return true;
}

// A text of the relaxed form, which is known to be alive. Mostly the term itself accepts it.
std::vector<std::uint8_t> Lexicon::guess(TermId term, Work& work) {
  std::vector<std::uint8_t> text;
  for (TermId guide = terms_.loosen(term); !terms_[guide].nullable;) {
    if (terms_.shortest(guide, text, work)) break;
    const std::uint8_t byte = towards_[guide].byte;
    text.push_back(byte);
    guide = raw_row(guide, work).next[byte];
  }
  return text;
}

// Whether the term accepts the text, or a state on the way is known to be alive. Then the states before it are alive.
bool Lexicon::accepts(TermId term, std::span<const std::uint8_t> text, Work& work) {
  std::vector<TermId> path;
  TermId at = term;
  while (path.size() < text.size() && known_life(at) == Life::unknown) {
    path.push_back(at);
    at = derivative(at, text[path.size() - 1], work);
  }
  if (known_life(at) != Life::alive) return false;
  for (; !path.empty(); path.pop_back()) {
    mark_alive(path.back(), text[path.size() - 1], at);
    at = path.back();
  }
  return true;
}

// The bytes that lead from a state that is alive to an accepting one; none where they are many, or not known.
std::vector<std::uint8_t> Lexicon::way_out(TermId term, Work& work) {
  constexpr std::size_t kMostBytes = 128;
  std::vector<std::uint8_t> text;
  for (TermId at = term; !terms_[at].nullable;) {
    if (text.size() == kMostBytes) return {};
    if (terms_[at].plain) {
      if (terms_.shortest_length(at) > kMostBytes || !terms_.shortest(at, text, work)) return {};
      break;
    }
    if (at >= life_.size() || life_[at] != Life::alive) return {};
    text.push_back(towards_[at].byte);
    at = derivative(at, text.back(), work);
  }
  return text;
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
    for (; frontier.seen()[at].from != kNone; at = frontier.seen()[at].from) {
      const auto& reached = frontier.seen()[at];
      mark_alive(frontier.seen()[reached.from].term, reached.byte, reached.term);
    }
    return true;
  };
  for (std::uint32_t at = frontier.pop(); at != kNone; at = frontier.pop()) {
    const TermId here = frontier.seen()[at].term;
    const std::uint32_t depth = frontier.seen()[at].depth + 1;
    if (!is_relaxed && accepts(here, guess(here, work), work)) return all_alive(at);
    if (!is_relaxed && has_other_lengths(here, work)) continue;
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
        mark_alive(here, static_cast<std::uint8_t>(b), next);
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

}  // namespace narrows
