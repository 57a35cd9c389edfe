// A grammar as byte-level recursive transition networks: one automaton per rule, whose edges read a term, one token, or
// a rule.
//
// Building a network establishes what the matcher relies on. Afterwards
//   - every state can reach the end of its rule, and every edge can be taken by some text;
//   - a called rule reads at least one byte (calls that may read nothing have a by-pass), and
//   - no rule calls itself before it reads something: the left-corner method rewrites left-recursive groups into loops.
//     So a closure can push calls in the order of `rank`.
// None of this changes the language. Cost: linear in the grammar, except that a left-recursive group of k rules is
// copied k times (bounded by limits.states).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "automata/lexicon.hpp"
#include "grammar/ir.hpp"

namespace narrows {

// Costs in bytes to the end of a text. Greater costs count as unreachable.
inline constexpr std::uint64_t kFar = 1ull << 60;
inline std::uint64_t add_costs(std::uint64_t x, std::uint64_t y) { return x + y < kFar ? x + y : kFar; }

struct Edge {
  enum class Kind : std::uint8_t { empty, term, token, call, distinct, guard, counted };
  Kind kind = Kind::empty;
  std::uint32_t label = 0;  // term: TermId. token: index of a token set. call: rule. Others: index
  std::uint32_t to = 0;
};

class Network {
 public:
  Network(const Ir& ir, Lexicon& lexicon, const Limits& limits, Work& work);

  std::uint32_t start_state() const { return start_; }
  std::uint32_t rule_start(std::uint32_t rule) const { return rule_starts_[rule]; }
  std::uint32_t rule_count() const { return static_cast<std::uint32_t>(rule_starts_.size()); }
  // Callers have a smaller rank than the rules that they call first.
  std::uint32_t rank(std::uint32_t rule) const { return ranks_[rule]; }
  std::uint32_t rule_of(std::uint32_t state) const { return states_[state].rule; }
  std::span<const std::uint32_t> token_set(std::uint32_t index) const { return token_sets_[index]; }
  // A term of which no two in one run of the rule may read the same name (match/names.hpp).
  struct Distinct {
    TermId term;
    std::uint8_t spelling;
    std::uint32_t name;  // the string that is the only name it reads, or kNone
  };
  const Distinct& distinct(std::uint32_t index) const { return distinct_[index]; }
  std::span<const Distinct> distincts() const { return distinct_; }
  // A term that no more than `most` tokens read, if it can end there (match/stacks.hpp).
  struct Counted {
    TermId term;
    std::uint32_t most;
  };
  const Counted& counted(std::uint32_t index) const { return counted_[index]; }
  bool counts_tokens() const { return !counted_.empty(); }
  // Reads nothing, and passes where all of these names have been read, or, if `negated`, where one of them has not.
  struct Guard {
    std::uint32_t first, count;  // strings of the IR
    bool string, negated;
  };
  std::span<const Guard> guards() const { return guards_; }

  // A state with its empty edges followed. It is computed at the first call.
  struct Closed {
    bool made = false;
    bool final = false;
    bool guarded = false;     // one of the edges is a guard
    std::vector<Edge> edges;  // no empty ones; guards are not followed
  };
  const Closed& closed(std::uint32_t state, Work* work = nullptr);
  // Nothing can follow at the state except the end of its rule: a caller need not push it.
  bool only_ends(std::uint32_t state) const { return only_ends_[state]; }

  // The fewest bytes (a token counts one) from each state to the end of its rule; computed at the first call.
  const std::vector<std::uint64_t>& costs(Lexicon& lexicon, Work& work);
  std::uint64_t edge_cost(const Edge& edge, Lexicon& lexicon, Work& work);

  // What edges read, each term once.
  std::vector<TermId> terms() const;

  std::size_t state_count() const { return states_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct State {
    std::vector<Edge> edges;
    bool final = false;
    std::uint32_t rule = 0;
  };
  std::uint32_t add_state(std::uint32_t rule, Work& work);
  void add_edge(std::uint32_t from, Edge edge);
  void build(const Ir& ir, Lexicon& lexicon, Work& work);
  void build_node(const Ir& ir, Lexicon& lexicon, const std::vector<TermId>& terms, std::uint32_t rule,
                  std::uint32_t node, Work& work);
  std::uint32_t helper_rule(std::uint32_t node, std::uint32_t named_after);
  std::uint32_t token_set_of(const Ir& ir, std::uint32_t node, Work& work);
  std::vector<bool> backward(const std::function<bool(const Edge&)>& passes, Work& work) const;
  void trim(Lexicon& lexicon, Work& work);
  void bypass_nullable(Lexicon& lexicon, Work& work);
  void find_ends();
  void count();
  void remove_left_recursion(Work& work);
  void rewrite_group(const std::vector<std::uint32_t>& group, Work& work);
  std::vector<std::vector<std::uint32_t>> left_calls();

  std::uint64_t max_states_;
  std::vector<State> states_;
  std::vector<Closed> closed_;
  std::vector<bool> only_ends_;
  std::vector<std::uint32_t> seen_at_;  // by state: the visit that last came here
  std::uint32_t visit_ = 0;
  std::vector<std::uint32_t> rule_starts_, rule_ends_, ranks_;
  std::vector<std::uint32_t> rule_nodes_, rule_names_;  // the node and the named rule behind each rule
  std::vector<std::uint32_t> helper_of_;                // by node: the rule made for it, or kNone
  std::vector<std::vector<std::uint32_t>> token_sets_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      token_set_at_;  // by place in the IR, while rules are built
  std::vector<Distinct> distinct_;
  std::vector<Guard> guards_;
  std::vector<Counted> counted_;
  std::vector<bool> holds_names_;  // by node, while rules are built
  std::vector<std::uint64_t> costs_;
  std::uint32_t start_ = 0;
  std::size_t bytes_ = 0;  // of all but the edges of states that were closed since
};

}  // namespace narrows
