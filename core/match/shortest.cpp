#include "match/shortest.hpp"

#include <algorithm>
#include <map>
#include <queue>

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

// The cheapest way from a state to the end of its rule where the names so far decide: the edges up to the first that reads a name,
// or to the end. A guard passes or not as it does now, and an edge whose names have all been read is left out. Where none of the
// ways to the end is open, the way leads to the nearest name that a guard waits for.
std::vector<Edge> way_through(Stacks& stacks, Network& network, Lexicon& lexicon, std::uint32_t from, NameSet names,
                              Work& work) {
  struct Reached {
    std::uint64_t cost;
    std::uint32_t before;  // the state, kNone at the beginning
    Edge edge;
  };
  std::map<std::uint32_t, Reached> reached{{from, {0, kNone, {}}}};
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({0, from});
  std::vector<NameText> lacking;
  std::vector<std::pair<std::uint32_t, Edge>> readers;  // edges that read a fixed name, nearest first
  const auto way_to = [&](std::uint32_t state) {
    std::vector<Edge> way;
    for (Reached at = reached.at(state); at.before != kNone; at = reached.at(at.before)) way.push_back(at.edge);
    std::ranges::reverse(way);
    const auto name = std::ranges::find(way, Edge::Kind::distinct, &Edge::kind);
    if (name != way.end()) way.erase(name + 1, way.end());
    return way;
  };
  while (!queue.empty()) {
    const auto [cost, state] = queue.top();
    queue.pop();
    if (cost > reached.at(state).cost) continue;
    const Network::Closed& here = network.closed(state);
    if (here.final) return way_to(state);
    for (const Edge& e : here.edges) {
      work.spend(8);
      if (e.kind == Edge::Kind::guard && !stacks.passes(e.label, names, work)) {
        const auto wanted = stacks.guarded(e.label);
        if (!network.guards()[e.label].negated) lacking.insert(lacking.end(), wanted.begin(), wanted.end());
        continue;
      }
      std::uint64_t own = kFar;
      if (e.kind == Edge::Kind::distinct && stacks.fixed_name(e.label) != Names::kNotReading) {
        const NameText name = stacks.fixed_name(e.label);
        if (stacks.names().has_all(names, {&name, 1}, work)) continue;
        readers.emplace_back(state, e);
      } else if (e.kind == Edge::Kind::distinct) {
        const auto& [term, how, name] = network.distinct(e.label);
        const TermId left = stacks.names().without(term, static_cast<NameSpelling>(how), names, work);
        if (!lexicon.alive(left, work)) continue;
        own = lexicon.shortest_length(left, work);
      }
      const std::uint64_t more = add_costs(cost, own == kFar ? network.edge_cost(e, lexicon, work) : own);
      const auto [at, is_new] = reached.try_emplace(e.to, Reached{more, state, e});
      if (!is_new && at->second.cost <= more) continue;
      at->second = {more, state, e};
      queue.push({more, e.to});
    }
  }
  work.spend(8 * lacking.size());
  std::ranges::sort(lacking);
  for (const auto& [state, e] : readers) {
    if (!std::ranges::binary_search(lacking, stacks.fixed_name(e.label))) continue;
    std::vector<Edge> way = way_to(state);
    if (way.empty() || way.back().kind != Edge::Kind::distinct) way.push_back(e);
    return way;
  }
  throw Error("no_shortest_end", "the shortest end is out of reach");
}

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
    if (reading < Names::kFixed)
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
  const auto take = [&](const Edge& e, std::size_t run) {
    if (e.kind == Edge::Kind::call) {
      todo.push_back({network.rule_start(e.label), runs.size()});
      runs.push_back(Names::kNoNames);
    } else if (e.kind == Edge::Kind::token) {
      add_token(e.label);
    } else if (e.kind == Edge::Kind::distinct) {
      const auto& [term, how, name] = network.distinct(e.label);
      const auto spelling = static_cast<NameSpelling>(how);
      const NameText fixed = stacks.fixed_name(e.label);
      add_term(name != kNone ? term : names.without(term, spelling, runs[run], work));
      runs[run] = read(runs[run], name != kNone ? fixed : names.begin(spelling));
    } else if (e.kind == Edge::Kind::term) {
      add_term(e.label);
    }
  };
  const bool has_fixed = !network.guards().empty() ||
                         std::ranges::any_of(network.distincts(), [](const auto& d) { return d.name != kNone; });
  const bool has_names = !network.distincts().empty();
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
      if (has_fixed || (has_names && runs[run] != Names::kNoNames)) {
        const std::vector<Edge> way = way_through(stacks, network, lexicon, state, runs[run], work);
        if (way.empty()) continue;
        // A call is brought to its end before what comes after it.
        const auto stop = std::ranges::find(way, Edge::Kind::call, &Edge::kind);
        const auto last = stop == way.end() ? way.end() : stop + 1;
        todo.push_back({std::prev(last)->to, run});
        for (auto e = way.begin(); e != last; ++e) take(*e, run);
        continue;
      }
      if (state_costs[state] == 0) continue;
      for (const Edge& e : network.closed(state).edges) {
        // What may read nothing has a by-pass; taking it here could go round for ever.
        const std::uint64_t cost = network.edge_cost(e, lexicon, work);
        if (cost == 0 || add_costs(cost, state_costs[e.to]) != state_costs[state]) continue;
        todo.push_back({e.to, run});
        take(e, run);
        break;
      }
    }
    set = stacks.node_below(node);
  }
}

}  // namespace narrows
