#include "match/shortest.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <queue>

#include "match/below.hpp"
#include "match/matcher.hpp"

namespace narrows {
namespace {

// More than a way costs that is of bytes alone.
constexpr std::uint64_t kClosed = kFar >> 8;

// What rules cost where the names decide. The network's costs take guards as open: by them, a rule may seem to be
// nearest to its end that calls itself again and again. Each rule here calls only rules that were found before it.
struct RuleCosts {
  std::vector<std::uint64_t> cost;   // by rule
  std::vector<std::uint32_t> place;  // in which they were found; kNone
  std::uint32_t found = 0;
};

// The cheapest way from a state to the end of its rule where the names so far decide: the edges up to the first that
// reads a name, or to the end. A guard passes or not as it does now, and an edge whose names have all been read is left
// out. Where none of the ways to the end is open, the one with the fewest closed guards tells which names are lacking,
// and the way leads to that of which the rest of the rule costs least.
class WayThrough {
 public:
  // `rules`: costs of rules, of which those before `before` may be called; null where the network's costs are taken.
  WayThrough(Stacks& stacks, Network& network, Lexicon& lexicon, NameSet names, const RuleCosts* rules,
             std::uint32_t before, Work& work)
      : stacks_(stacks),
        network_(network),
        lexicon_(lexicon),
        names_(names),
        rules_(rules),
        before_(before),
        work_(work) {}

  // Nothing where there is none.
  std::optional<std::vector<Edge>> from(std::uint32_t state) {
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
  std::uint64_t cost_of(const Edge& e) {
    if (rules_ == nullptr || e.kind != Edge::Kind::call) return network_.edge_cost(e, lexicon_, work_);
    return rules_->place[e.label] < before_ ? rules_->cost[e.label] : kFar;
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
    if (cost >= kFar) return;
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
          reach(state, e, cost_of(e));
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
  std::optional<std::vector<Edge>> to_reader(const std::vector<NameText>& wanted) {
    const Reader* best = nullptr;
    for (const Reader& one : readers_)
      if ((best == nullptr || one.cost < best->cost) &&
          std::ranges::binary_search(wanted, stacks_.fixed_name(one.step.edge.label)))
        best = &one;
    if (best == nullptr) return {};
    std::vector<Edge> way = way_to(best->step.state);
    way.push_back(best->step.edge);
    return to_first_name(std::move(way));
  }

  Stacks& stacks_;
  Network& network_;
  Lexicon& lexicon_;
  NameSet names_;
  const RuleCosts* rules_;
  std::uint32_t before_;
  Work& work_;
  std::map<std::uint32_t, Reached> reached_;
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Step> closed_;  // guards that do not pass, where no other stands before them
  std::vector<Reader> readers_;
  std::vector<NameText> readable_;  // their names
};

// Writes the shortest end of a text.
class Completer {
 public:
  Completer(Constraint& constraint, Work& work)
      : stacks_(constraint.stacks()), network_(constraint.network()), lexicon_(constraint.lexicon()), work_(work) {
    has_fixed_ = !network_.guards().empty() ||
                 std::ranges::any_of(network_.distincts(), [](const auto& d) { return d.name != kNone; });
    has_names_ = !network_.distincts().empty();
  }

  std::vector<Completion> from(ConfigId config) {
    if (write(config) != Found::end) {
      find_costs();
      if (write(config) != Found::end) throw Error("no_shortest_end", "the shortest end is out of reach");
    }
    return std::move(out_);
  }

 private:
  // One time through a rule.
  struct Run {
    NameSet names;                 // that it has read
    std::uint32_t rule = kNone;    // kNone where it was open before
    std::size_t caller = 0;        // a run
    std::uint32_t before = kNone;  // it may call the rules that were found before this place
  };
  struct Open {
    std::uint32_t state;
    std::size_t run;
  };

  // round: the costs, which do not know the names, lead on without an end: a rule calls itself.
  enum class Found { end, nothing, round };
  // What is written so far.
  struct Mark {
    std::size_t completions, bytes;
  };
  // A set of the stack: its nodes, the nearest to the end first, of which those before `next` have been tried.
  struct Level {
    std::vector<std::uint32_t> nodes;
    std::size_t next;
    Mark mark;
  };

  // The reading of the text that seems nearest to its end may have none, for the names that it needs are used up. So
  // all are tried, in this order.
  Found write(ConfigId config) {
    out_.clear();
    if (stacks_.accepting(config)) return Found::end;
    const Below below(stacks_, network_.costs(lexicon_, work_));
    dead_.assign(stacks_.node_count(), false);
    for (const First& first : firsts(config, below)) {
      out_.clear();
      if (first.is_term) {
        add_term(first.item.label);
      } else {
        add_token(first.item.label);
      }
      const Found found = finish(first.item.returns, below);
      if (found != Found::nothing) return found;
    }
    return Found::nothing;
  }

  // From the end of a terminal on, whose text is `text_`.
  Found finish(SetId set, const Below& below) {
    const std::vector<std::uint8_t> text = text_;
    std::vector<Level> path{level(set, below)};
    while (!path.empty()) {
      work_.spend();
      Level& here = path.back();
      cut(here.mark);
      if (here.next == here.nodes.size()) {
        path.pop_back();
        if (!path.empty()) dead_[path.back().nodes[path.back().next - 1]] = true;
        continue;
      }
      const std::uint32_t node = here.nodes[here.next++];
      if (node == Stacks::kBottom) return Found::end;
      if (dead_[node]) continue;
      if (path.size() == 1) text_ = text;
      const Found found = end_run(node);
      if (found == Found::round) return found;
      if (found == Found::end) {
        path.push_back(level(stacks_.node_below(node), below));
      } else if (stacks_.node_reading(node) == Names::kNotReading) {
        dead_[node] = true;
      }
    }
    return Found::nothing;
  }
  Level level(SetId set, const Below& below) {
    const auto all = stacks_.nodes(set);
    Level made{{all.begin(), all.end()}, 0, {out_.size(), out_.empty() ? 0 : out_.back().bytes.size()}};
    std::ranges::stable_sort(made.nodes, {}, [&](std::uint32_t node) { return below.cost[node]; });
    work_.spend(4 * all.size());
    return made;
  }
  void cut(const Mark& mark) {
    out_.resize(mark.completions);
    if (!out_.empty()) out_.back().bytes.resize(mark.bytes);
  }

  // From a node to the end of its rule.
  Found end_run(std::uint32_t node) {
    const auto& state_costs = network_.costs(lexicon_, work_);
    const NameText reading = stacks_.node_reading(node);
    runs_.assign(1,
                 {reading == Names::kNotReading ? stacks_.node_names(node) : with(stacks_.node_names(node), reading)});
    todo_.assign(1, {stacks_.node_state(node), 0});
    while (!todo_.empty()) {
      const auto [state, run] = todo_.back();
      todo_.pop_back();
      work_.spend();
      if (has_fixed_ || (has_names_ && runs_[run].names != Names::kNoNames)) {
        const auto way =
            WayThrough(stacks_, network_, lexicon_, runs_[run].names, costs(), runs_[run].before, work_).from(state);
        if (!way) return Found::nothing;
        if (way->empty()) continue;
        // A call is brought to its end before what comes after it.
        const auto stop = std::ranges::find(*way, Edge::Kind::call, &Edge::kind);
        const auto last = stop == way->end() ? way->end() : stop + 1;
        todo_.push_back({std::prev(last)->to, run});
        for (auto e = way->begin(); e != last; ++e)
          if (!take(*e, run)) return Found::round;
        continue;
      }
      if (state_costs[state] == 0) continue;
      for (const Edge& e : network_.closed(state).edges) {
        // What may read nothing has a by-pass; taking it here could go round for ever.
        const std::uint64_t cost = network_.edge_cost(e, lexicon_, work_);
        if (cost == 0 || add_costs(cost, state_costs[e.to]) != state_costs[state]) continue;
        todo_.push_back({e.to, run});
        take(e, run);
        break;
      }
    }
    return Found::end;
  }

  // What is being read, and what it costs to bring that and the text to an end.
  struct First {
    std::uint64_t cost;
    bool is_term;
    Item item;
  };
  std::vector<First> firsts(ConfigId config, const Below& below) {
    std::vector<First> found;
    const auto add = [&](std::uint64_t own, bool is_term, const Item& item) {
      const std::uint64_t cost = add_costs(own, below.set_cost(stacks_, item.returns));
      if (cost < kFar) found.push_back({cost, is_term, item});
    };
    for (const Item& item : stacks_.items(config)) add(lexicon_.shortest_length(item.label, work_), true, item);
    for (const Item& item : stacks_.token_items(config)) add(1, false, item);
    std::ranges::stable_sort(found, {}, &First::cost);
    return found;
  }

  void add_token(std::uint32_t label) { out_.push_back({{}, network_.token_set(label)[0]}); }
  void add_term(TermId term) {
    if (out_.empty() || out_.back().token != kNone) out_.push_back({});
    text_.clear();
    lexicon_.shortest(term, text_, work_);
    out_.back().bytes.insert(out_.back().bytes.end(), text_.begin(), text_.end());
  }
  // The names with one that has just been read.
  NameSet with(NameSet names, NameText reading) {
    if (reading < Names::kFixed)
      for (std::uint8_t byte : text_) reading = stacks_.names().extend(reading, byte);
    return stacks_.names().add(names, reading, work_);
  }
  NameSet read_name(const Edge& e, NameSet names) {
    const auto& [term, how, name] = network_.distinct(e.label);
    const auto spelling = static_cast<NameSpelling>(how);
    add_term(name != kNone ? term : stacks_.names().without(term, spelling, names, work_));
    return with(names, name != kNone ? stacks_.fixed_name(e.label) : stacks_.names().begin(spelling));
  }
  bool take(const Edge& e, std::size_t run) {
    if (e.kind == Edge::Kind::call) {
      for (std::size_t r = run; rules_.cost.empty() && has_fixed_ && runs_[r].rule != kNone; r = runs_[r].caller)
        if (work_.spend(); runs_[r].rule == e.label) return false;
      todo_.push_back({network_.rule_start(e.label), runs_.size()});
      runs_.push_back({Names::kNoNames, e.label, run, rules_.cost.empty() ? kNone : rules_.place[e.label]});
    } else if (e.kind == Edge::Kind::token) {
      add_token(e.label);
    } else if (e.kind == Edge::Kind::distinct) {
      runs_[run].names = read_name(e, runs_[run].names);
    } else if (e.kind == Edge::Kind::term) {
      add_term(e.label);
    } else if (e.kind == Edge::Kind::counted) {
      add_term(network_.counted(e.label).term);
    }
    return true;
  }

  const RuleCosts* costs() const { return rules_.cost.empty() ? nullptr : &rules_; }

  // Those that are called are mostly found first, so that there are few rounds.
  void find_costs() {
    const std::uint32_t count = network_.rule_count();
    rules_.cost.assign(count, kFar);
    rules_.place.assign(count, kNone);
    std::vector<std::uint32_t> left(count);
    std::iota(left.begin(), left.end(), 0u);
    std::erase_if(left, [&](std::uint32_t rule) { return network_.rule_start(rule) == kNone; });
    std::ranges::sort(left, std::greater<>(), [&](std::uint32_t rule) { return network_.rank(rule); });
    for (std::size_t before = left.size() + 1; left.size() < before;) {
      before = left.size();
      std::erase_if(left, [&](std::uint32_t rule) {
        const std::uint64_t cost = rule_cost(rule);
        if (cost >= kFar) return false;
        rules_.cost[rule] = cost;
        rules_.place[rule] = rules_.found++;
        return true;
      });
    }
  }
  std::uint64_t rule_cost(std::uint32_t rule) {
    NameSet names = Names::kNoNames;
    std::uint64_t cost = 0;
    for (std::uint32_t state = network_.rule_start(rule);;) {
      WayThrough ways(stacks_, network_, lexicon_, names, &rules_, rules_.found, work_);
      const auto way = ways.from(state);
      if (!way) return kFar;
      if (way->empty()) return cost;
      for (const Edge& e : *way) {
        if (e.kind == Edge::Kind::distinct) {
          names = read_name(e, names);
          cost = add_costs(cost, text_.size());
        } else {
          cost = add_costs(cost, ways.cost_of(e));
        }
      }
      state = way->back().to;
    }
  }

  Stacks& stacks_;
  Network& network_;
  Lexicon& lexicon_;
  Work& work_;
  bool has_fixed_ = false, has_names_ = false;
  RuleCosts rules_;
  std::vector<Completion> out_;
  std::vector<std::uint8_t> text_;  // of the last term
  std::vector<Open> todo_;          // states still to be brought to the end of their rule; calls are entered by it
  std::vector<Run> runs_;
  std::vector<bool> dead_;  // by node: the text cannot be brought to an end there
};

}  // namespace

std::vector<Completion> shortest_completion(Constraint& constraint, ConfigId config, Work& work) {
  if (constraint.stacks().longest()) return searched_completion(constraint, config, work);
  return Completer(constraint, work).from(config);
}

}  // namespace narrows
