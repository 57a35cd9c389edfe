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

// More than a way costs that is of bytes alone.
constexpr std::uint64_t kClosed = kFar >> 8;

// The cheapest way from a state to the end of its rule where the names so far decide: the edges up to the first that reads a name,
// or to the end. A guard passes or not as it does now, and an edge whose names have all been read is left out. Where none of the
// ways to the end is open, the one with the fewest closed guards tells which names are lacking, and the way leads to that of which
// the rest of the rule costs least.
class WayThrough {
 public:
  WayThrough(Stacks& stacks, Network& network, Lexicon& lexicon, NameSet names, Work& work)
      : stacks_(stacks), network_(network), lexicon_(lexicon), names_(names), work_(work) {}

  std::vector<Edge> from(std::uint32_t state) {
    reached_.emplace(state, Reached{0, kNone, {}});
    queue_.push({0, state});
    std::uint32_t end = search();
    if (end != kNone) return to_first_name(way_to(end));
    std::ranges::sort(readable_);
    for (const auto& [before, e] : closed_)
      if (can_open(e)) reach(before, e, kClosed);
    end = search();
    return to_reader(lacking(end));
  }

 private:
  struct Reached {
    std::uint64_t cost;
    std::uint32_t before;  // the state, kNone at the beginning
    Edge edge;
  };
  struct Step {
    std::uint32_t state;
    Edge edge;
  };
  struct Reader {  // an edge that reads a fixed name
    std::uint64_t cost;
    Step step;
  };

  bool has_read(NameText name) { return stacks_.names().has_all(names_, {&name, 1}, work_); }
  bool is_closed(const Edge& e) { return e.kind == Edge::Kind::guard && !stacks_.passes(e.label, names_, work_); }
  bool can_open(const Edge& e) {
    work_.spend(stacks_.guarded(e.label).size());
    return !network_.guards()[e.label].negated && std::ranges::all_of(stacks_.guarded(e.label), [&](NameText name) {
      return std::ranges::binary_search(readable_, name) || has_read(name);
    });
  }
  // Whether the way to a state reads the names that a guard there waits for.
  bool opens_on_the_way(std::uint32_t state, const Edge& e) {
    if (network_.guards()[e.label].negated) return false;
    std::vector<NameText> read;
    for (const Edge& before : way_to(state))
      if (before.kind == Edge::Kind::distinct) read.push_back(stacks_.fixed_name(before.label));
    work_.spend(read.size());
    return !read.empty() && std::ranges::all_of(stacks_.guarded(e.label), [&](NameText name) {
      return std::ranges::find(read, name) != read.end() || has_read(name);
    });
  }
  void reach(std::uint32_t state, const Edge& e, std::uint64_t own) {
    const std::uint64_t cost = add_costs(reached_.at(state).cost, own);
    const auto [at, is_new] = reached_.try_emplace(e.to, Reached{cost, state, e});
    if (!is_new && at->second.cost <= cost) return;
    at->second = {cost, state, e};
    queue_.push({cost, e.to});
  }
  // The end that is nearest; kNone if there is none within reach.
  std::uint32_t search() {
    const auto& state_costs = network_.costs(lexicon_, work_);
    while (!queue_.empty()) {
      const auto [cost, state] = queue_.top();
      queue_.pop();
      if (cost > reached_.at(state).cost) continue;
      const Network::Closed& here = network_.closed(state);
      if (here.final) return state;
      for (const Edge& e : here.edges) {
        work_.spend(8);
        if (is_closed(e)) {
          if (opens_on_the_way(state, e)) {
            reach(state, e, 0);
          } else if (cost < kClosed) {
            closed_.push_back({state, e});
          } else if (can_open(e)) {
            reach(state, e, kClosed);
          }
        } else if (e.kind != Edge::Kind::distinct) {
          reach(state, e, network_.edge_cost(e, lexicon_, work_));
        } else if (const NameText name = stacks_.fixed_name(e.label); name == Names::kNotReading) {
          const auto& [term, how, fixed] = network_.distinct(e.label);
          const TermId left = stacks_.names().without(term, static_cast<NameSpelling>(how), names_, work_);
          if (lexicon_.alive(left, work_)) reach(state, e, lexicon_.shortest_length(left, work_));
        } else if (!has_read(name)) {
          const std::uint64_t own = network_.edge_cost(e, lexicon_, work_);
          if (cost < kClosed) {
            readable_.push_back(name);
            readers_.push_back({add_costs(cost, add_costs(own, state_costs[e.to])), {state, e}});
          }
          reach(state, e, own);
        }
      }
    }
    return kNone;
  }
  std::vector<Edge> way_to(std::uint32_t state) const {
    std::vector<Edge> way;
    for (Reached at = reached_.at(state); at.before != kNone; at = reached_.at(at.before)) way.push_back(at.edge);
    std::ranges::reverse(way);
    return way;
  }
  static std::vector<Edge> to_first_name(std::vector<Edge> way) {
    const auto name = std::ranges::find(way, Edge::Kind::distinct, &Edge::kind);
    if (name != way.end()) way.erase(name + 1, way.end());
    return way;
  }
  // The names that guards on the way to this end wait for; where none can be reached, those of all guards.
  std::vector<NameText> lacking(std::uint32_t end) {
    std::vector<NameText> found;
    const auto add = [&](const Edge& e) {
      if (!is_closed(e) || network_.guards()[e.label].negated) return;
      const auto wanted = stacks_.guarded(e.label);
      found.insert(found.end(), wanted.begin(), wanted.end());
    };
    if (end != kNone)
      for (const Edge& e : way_to(end)) add(e);
    else
      for (const Step& step : closed_) add(step.edge);
    work_.spend(8 * found.size());
    std::ranges::sort(found);
    return found;
  }
  std::vector<Edge> to_reader(const std::vector<NameText>& wanted) {
    const Reader* best = nullptr;
    for (const Reader& one : readers_)
      if ((best == nullptr || one.cost < best->cost) &&
          std::ranges::binary_search(wanted, stacks_.fixed_name(one.step.edge.label)))
        best = &one;
    if (best == nullptr) throw Error("no_shortest_end", "the shortest end is out of reach");
    std::vector<Edge> way = way_to(best->step.state);
    way.push_back(best->step.edge);
    return to_first_name(std::move(way));
  }

  Stacks& stacks_;
  Network& network_;
  Lexicon& lexicon_;
  NameSet names_;
  Work& work_;
  std::map<std::uint32_t, Reached> reached_;
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Step> closed_;  // guards that do not pass, where no other stands before them
  std::vector<Reader> readers_;
  std::vector<NameText> readable_;  // their names
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
        const std::vector<Edge> way = WayThrough(stacks, network, lexicon, runs[run], work).from(state);
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
