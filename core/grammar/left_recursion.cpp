// Rules that call themselves before they read anything, rewritten as loops: a part of building a network.

#include <algorithm>

#include "grammar/network.hpp"

namespace narrows {
namespace {

using Kind = Edge::Kind;

}  // namespace

// For each rule, the rules that it may call before it reads anything.
std::vector<std::vector<std::uint32_t>> Network::left_calls() {
  std::vector<std::vector<std::uint32_t>> calls(rule_count());
  closed_.assign(states_.size(), {});
  std::vector<std::uint32_t> starts;  // where the rule is before it reads anything, guards passed
  for (std::uint32_t r = 0; r < rule_count(); ++r) {
    starts.assign(1, rule_starts_[r]);
    for (std::size_t i = 0; i < starts.size(); ++i)
      for (const Edge& e : closed(starts[i]).edges) {
        if (e.kind == Kind::call) calls[r].push_back(e.label);
        if (e.kind == Kind::guard && std::ranges::find(starts, e.to) == starts.end()) starts.push_back(e.to);
      }
    std::ranges::sort(calls[r]);
    calls[r].erase(std::unique(calls[r].begin(), calls[r].end()), calls[r].end());
  }
  return calls;
}

void Network::remove_left_recursion(Work& work) {
  const auto calls = left_calls();
  const std::uint32_t n = rule_count();
  // Tarjan's strongly connected components with an explicit stack.
  std::vector<std::uint32_t> index(n, kNone), low(n), component(n, kNone), open;
  std::vector<std::vector<std::uint32_t>> groups;
  std::uint32_t counter = 0;
  struct Frame {
    std::uint32_t rule;
    std::size_t next;
  };
  for (std::uint32_t root = 0; root < n; ++root) {
    if (index[root] != kNone) continue;
    std::vector<Frame> frames{{root, 0}};
    index[root] = low[root] = counter++;
    open.push_back(root);
    while (!frames.empty()) {
      Frame& frame = frames.back();
      const std::uint32_t r = frame.rule;
      if (frame.next < calls[r].size()) {
        const std::uint32_t callee = calls[r][frame.next++];
        if (index[callee] == kNone) {
          index[callee] = low[callee] = counter++;
          open.push_back(callee);
          frames.push_back({callee, 0});
        } else if (component[callee] == kNone) {
          low[r] = std::min(low[r], index[callee]);
        }
        continue;
      }
      if (low[r] == index[r]) {
        groups.emplace_back();
        for (std::uint32_t member = kNone; member != r;) {
          member = open.back();
          open.pop_back();
          component[member] = static_cast<std::uint32_t>(groups.size() - 1);
          groups.back().push_back(member);
        }
      }
      frames.pop_back();
      if (!frames.empty()) low[frames.back().rule] = std::min(low[frames.back().rule], low[r]);
    }
  }
  // Tarjan finishes a component after all that it reaches, so reversed order puts callers first.
  ranks_.assign(n, 0);
  for (std::uint32_t r = 0; r < n; ++r) ranks_[r] = static_cast<std::uint32_t>(groups.size()) - 1 - component[r];
  for (const auto& group : groups) {
    const bool recursive = group.size() > 1 || std::ranges::binary_search(calls[group[0]], group[0]);
    if (recursive) rewrite_group(group, work);
  }
  start_ = rule_starts_[start_];
}

// Left-corner rewriting. For each goal A of the group, the automata of all its rules are copied into one: it starts
// with whatever any of them reads first, and where a rule X of the group has ended, it goes on where the group calls X
// first.
void Network::rewrite_group(const std::vector<std::uint32_t>& group, Work& work) {
  std::vector<std::uint32_t> member(rule_count(), kNone);  // rule -> position in the group
  for (std::uint32_t i = 0; i < group.size(); ++i) member[group[i]] = i;
  struct Step {
    std::uint32_t position;  // whose start has the edge
    Edge edge;
  };
  std::vector<Step> first, after;  // what a rule reads first; first calls to a rule of the group
  std::vector<std::vector<std::uint32_t>> bodies(group.size());
  for (std::uint32_t i = 0; i < group.size(); ++i) {
    const std::uint32_t start = rule_starts_[group[i]];
    for (const Edge& e : closed(start).edges) {
      const bool inner = e.kind == Kind::call && member[e.label] != kNone;
      (inner ? after : first).push_back({i, e});
    }
    std::vector<bool> seen(states_.size());
    bodies[i].push_back(start);
    seen[start] = true;
    for (std::size_t head = 0; head < bodies[i].size(); ++head)
      for (const Edge& e : states_[bodies[i][head]].edges) {
        if (e.kind == Kind::distinct || e.kind == Kind::guard)
          throw Error("ir_invalid", "a rule that calls itself first holds names");
        if (!seen[e.to]) {
          seen[e.to] = true;
          bodies[i].push_back(e.to);
        }
      }
  }
  std::vector<std::uint32_t> new_starts(group.size());
  const std::size_t old_states = states_.size();
  std::vector<std::uint32_t> copy_of(old_states, kNone);
  std::uint64_t edge_count = first.size() + after.size();
  for (const auto& body : bodies)
    for (std::uint32_t s : body) edge_count += states_[s].edges.size();
  for (std::uint32_t goal = 0; goal < group.size(); ++goal) {
    work.spend(4 * edge_count);
    std::vector<std::uint32_t> ended(group.size());
    for (std::uint32_t i = 0; i < group.size(); ++i) {
      ended[i] = add_state(states_[rule_starts_[group[i]]].rule, work);
      for (std::uint32_t s : bodies[i]) copy_of[s] = add_state(states_[s].rule, work);
    }
    for (std::uint32_t i = 0; i < group.size(); ++i)
      for (std::uint32_t s : bodies[i]) {
        std::vector<Edge> edges = states_[s].edges;
        for (Edge& e : edges) e.to = copy_of[e.to];
        if (states_[s].final) edges.push_back({Kind::empty, 0, ended[i]});
        states_[copy_of[s]].edges = std::move(edges);
      }
    states_[ended[goal]].final = true;
    for (const Step& step : after) add_edge(ended[member[step.edge.label]], {Kind::empty, 0, copy_of[step.edge.to]});
    new_starts[goal] = add_state(states_[rule_starts_[group[goal]]].rule, work);
    for (const Step& step : first) {
      Edge e = step.edge;
      e.to = copy_of[e.to];
      add_edge(new_starts[goal], e);
    }
  }
  // Not earlier: the copies above use the old starts.
  for (std::uint32_t i = 0; i < group.size(); ++i) {
    const bool can_end = closed(rule_starts_[group[i]]).final;
    rule_starts_[group[i]] = new_starts[i];
    if (can_end) states_[new_starts[i]].final = true;  // seen only where the grammar starts here: calls have a by-pass
  }
  closed_.resize(states_.size());
}

}  // namespace narrows
