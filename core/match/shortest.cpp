#include "match/shortest.hpp"

#include <algorithm>

#include "match/matcher.hpp"

namespace narrows {
namespace {

// The cheapest continuation below a return set, by node; nodes are made after those below them, so one pass settles
// them.
struct Below {
  std::vector<std::uint64_t> cost;  // of a node: to the end of its rule, and on to the end of the text

  Below(const Stacks& stacks, const std::vector<std::uint64_t>& state_costs) {
    cost.resize(stacks.node_count(), kFar);
    cost[Stacks::kBottom] = 0;
    for (std::uint32_t node = Stacks::kCut + 1; node < stacks.node_count(); ++node)
      cost[node] =
          add_costs(std::min(state_costs[stacks.node_state(node)], kFar), set_cost(stacks, stacks.node_below(node)));
  }
  std::uint64_t set_cost(const Stacks& stacks, SetId set) const {
    std::uint64_t best = kFar;
    for (std::uint32_t node : stacks.nodes(set)) best = std::min(best, cost[node]);
    return best;
  }
};

}  // namespace

std::vector<Completion> shortest_completion(Constraint& constraint, ConfigId config, Work& work) {
  Stacks& stacks = constraint.stacks();
  Network& network = constraint.network();
  Lexicon& lexicon = constraint.lexicon();
  std::vector<Completion> out;
  if (stacks.accepting(config)) return out;
  const auto& state_costs = network.costs(lexicon, work);
  const Below below(stacks, state_costs);

  const auto add_token = [&](std::uint32_t label) { out.push_back({{}, network.token_set(label)[0]}); };

  // First what is being read.
  std::uint64_t best = kFar;
  Item chosen{};
  bool is_term = true;
  for (const Item& item : stacks.items(config)) {
    const std::uint64_t own = lexicon.shortest_length(item.label, work);
    if (const std::uint64_t cost = add_costs(own, below.set_cost(stacks, item.returns)); cost < best) {
      best = cost;
      chosen = item;
    }
  }
  for (const Item& item : stacks.token_items(config))
    if (const std::uint64_t cost = add_costs(1, below.set_cost(stacks, item.returns)); cost < best) {
      best = cost;
      chosen = item;
      is_term = false;
    }
  if (best >= kFar) throw Error("no_shortest_end", "the shortest end is out of reach");
  Names& names = stacks.names();
  std::vector<std::uint8_t> text;  // of the last term
  const auto add_term = [&](TermId term) {
    if (out.empty() || out.back().token != kNone) out.push_back({});
    text.clear();
    lexicon.shortest(term, text, work);
    out.back().bytes.insert(out.back().bytes.end(), text.begin(), text.end());
  };
  const auto read = [&](NameSet set, NameText reading) {
    for (std::uint8_t byte : text) reading = names.extend(reading, byte);
    return names.add(set, reading, work);
  };
  if (is_term) {
    add_term(chosen.label);
  } else {
    add_token(chosen.label);
  }

  // Then each open rule to its end, along edges that lead down in cost. Calls are entered by an explicit stack.
  struct Open {
    std::uint32_t state;
    std::size_t run;  // of its rule
  };
  std::vector<Open> todo;     // states still to be brought to the end of their rule
  std::vector<NameSet> runs;  // the names that each run of a rule has read
  SetId set = chosen.returns;
  for (;;) {
    std::uint32_t node = stacks.nodes(set)[0];
    for (std::uint32_t n : stacks.nodes(set))
      if (below.cost[n] < below.cost[node]) node = n;
    if (node == Stacks::kBottom) return out;
    const NameText reading = stacks.node_reading(node);
    runs.assign(1, reading == Names::kNotReading ? stacks.node_names(node) : read(stacks.node_names(node), reading));
    todo.assign(1, {stacks.node_state(node), 0});
    while (!todo.empty()) {
      const auto [state, run] = todo.back();
      todo.pop_back();
      work.spend();
      if (state_costs[state] == 0) continue;
      for (const Edge& e : network.closed(state).edges) {
        // What may read nothing has a by-pass; taking it here could go round for ever.
        const std::uint64_t cost = network.edge_cost(e, lexicon, work);
        if (cost == 0 || add_costs(cost, state_costs[e.to]) != state_costs[state]) continue;
        todo.push_back({e.to, run});
        if (e.kind == Edge::Kind::call) {
          todo.push_back({network.rule_start(e.label), runs.size()});
          runs.push_back(Names::kNoNames);
        } else if (e.kind == Edge::Kind::token) {
          add_token(e.label);
        } else if (e.kind == Edge::Kind::distinct) {
          const auto spelling = static_cast<NameSpelling>(network.distinct(e.label).spelling);
          add_term(names.without(network.distinct(e.label).term, spelling, runs[run], work));
          runs[run] = read(runs[run], names.begin(spelling));
        } else {
          add_term(e.label);
        }
        break;
      }
    }
    set = stacks.node_below(node);
  }
}

}  // namespace narrows
