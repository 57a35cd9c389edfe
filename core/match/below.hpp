// What it costs to bring a text to its end from below the stack, by the costs of the network.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "match/stacks.hpp"

namespace narrows {

// The cheapest continuation below a return set, by node. Nodes are made after those below them, so one pass settles
// them.
struct Below {
  std::vector<std::uint64_t> cost;  // of a node: to the end of its rule, and on to the end of the text

  Below(const Stacks& stacks, const std::vector<std::uint64_t>& state_costs) { settle(stacks, state_costs); }
  // The nodes that were made since.
  void settle(const Stacks& stacks, const std::vector<std::uint64_t>& state_costs) {
    const auto known = std::max(static_cast<std::uint32_t>(cost.size()), Stacks::kCut + 1);
    cost.resize(stacks.node_count(), kFar);
    cost[Stacks::kBottom] = 0;
    for (std::uint32_t node = known; node < stacks.node_count(); ++node)
      cost[node] =
          add_costs(std::min(state_costs[stacks.node_state(node)], kFar), set_cost(stacks, stacks.node_below(node)));
  }
  std::uint64_t set_cost(const Stacks& stacks, SetId set) const {
    std::uint64_t best = kFar;
    for (std::uint32_t node : stacks.nodes(set)) best = std::min(best, cost[node]);
    return best;
  }
};

}  // namespace narrows
