#include "grammar/network.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

namespace narrows {
namespace {

using Kind = Edge::Kind;

// Values by group in one array: first each value's group is counted, then the values come.
template <class T>
class Grouped {
 public:
  explicit Grouped(std::size_t groups) : ends_(groups + 1) {}
  void count(std::uint32_t group) { ++ends_[group + 1]; }
  void counted() {
    for (std::size_t i = 1; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
    values_.resize(ends_.back());
  }
  // Until all are there, ends_[g] is where the next value of group g goes; then it is where the group ends.
  void add(std::uint32_t group, T value) { values_[ends_[group]++] = value; }
  std::span<const T> of(std::uint32_t group) const {
    const std::size_t begin = group == 0 ? 0 : ends_[group - 1];
    return std::span(values_).subspan(begin, ends_[group] - begin);
  }

 private:
  std::vector<std::size_t> ends_;
  std::vector<T> values_;
};

// The term of every node that becomes (part of) one automaton.
std::vector<TermId> make_terms(const Ir& ir, Terms& terms, Work& work) {
  std::vector<bool> wanted(ir.size());
  for (std::uint32_t i = static_cast<std::uint32_t>(ir.size()); i-- > 0;) {
    const NodeKind kind = ir.kind(i);
    if (kind == NodeKind::distinct || kind == NodeKind::counted) continue;  // its lexeme is one already
    const bool leaf =
        kind == NodeKind::bytes || kind == NodeKind::set || kind == NodeKind::literals || kind == NodeKind::substrings;
    if (leaf || kind == NodeKind::both || kind == NodeKind::complement || kind == NodeKind::lexeme) wanted[i] = true;
    if (wanted[i])
      for (std::uint32_t c : ir.children_of(i)) wanted[c] = true;
  }
  std::vector<TermId> made(ir.size(), kNone);
  std::vector<TermId> inner;
  std::size_t next_text = 0;
  for (std::uint32_t i = 0; i < ir.size(); ++i) {
    if (!wanted[i]) continue;
    inner.clear();
    for (std::uint32_t c : ir.children_of(i)) inner.push_back(made[c]);
    switch (ir.kind(i)) {
      case NodeKind::bytes: {
        const auto text = ir.string(ir.a[i]);
        const std::uint64_t offsets[] = {0, text.size()};
        made[i] = terms.literals(text, offsets);
        break;
      }
      case NodeKind::set: {
        ByteSet bytes;
        const auto bits = ir.string(ir.a[i]);
        for (unsigned j = 0; j < 32; ++j) bytes.words[j / 8] |= static_cast<std::uint64_t>(bits[j]) << (j % 8 * 8);
        made[i] = terms.set(bytes);
        break;
      }
      case NodeKind::literals: {
        const std::uint32_t first = ir.string_offsets[ir.a[i]], last = ir.string_offsets[ir.a[i] + ir.b[i]];
        std::vector<std::uint64_t> offsets(ir.b[i] + 1);
        for (std::uint32_t j = 0; j <= ir.b[i]; ++j) offsets[j] = ir.string_offsets[ir.a[i] + j] - first;
        made[i] = terms.literals(std::span(ir.string_bytes).subspan(first, last - first), offsets);
        break;
      }
      case NodeKind::substrings: {  // all of them are wanted
        made[i] = terms.substrings(ir.texts[next_text++]);
        for (std::uint8_t byte : ir.string(ir.b[i] / 2)) {
          ByteSet same = ByteSet::all();
          made[i] = terms.derivative(made[i], byte, same, work);
        }
        break;
      }
      case NodeKind::seq: {
        TermId all = kEmpty;
        for (std::size_t j = inner.size(); j-- > 0;) all = terms.cat(inner[j], all);
        made[i] = all;
        break;
      }
      case NodeKind::alt:
        // Alternatives of alternatives are written out.
        for (TermId t : inner) work.spend(terms[t].op == Op::alt ? 4 * terms.parts(t).size() : 4);
        made[i] = terms.alt(inner);
        break;
      case NodeKind::repeat:
        made[i] = terms.repeat(inner[0], ir.a[i], ir.b[i]);
        break;
      case NodeKind::both:
        made[i] = terms.both(inner);
        break;
      case NodeKind::complement:
        made[i] = terms.complement(inner[0]);
        break;
      case NodeKind::lexeme:
        made[i] = inner[0];
        break;
      case NodeKind::rule:
      case NodeKind::token:
      case NodeKind::distinct:
      case NodeKind::guard:
      case NodeKind::counted:
        break;
    }
  }
  return made;
}

}  // namespace

Network::Network(const Ir& ir, Lexicon& lexicon, const Limits& limits, Work& work) : max_states_(limits.states) {
  work.share(24 * ir.size() + ir.string_bytes.size());
  build(ir, lexicon, work);
  trim(lexicon, work);
  bypass_nullable(lexicon, work);
  remove_left_recursion(work);
  find_ends();
  closed_.resize(states_.size());
  seen_at_.resize(states_.size());
  count();
}

void Network::count() {
  helper_of_ = {};
  holds_names_ = {};
  rule_ends_ = {};
  rule_nodes_ = {};
  bytes_ = sizeof(Network) + held(states_) + held(closed_) + held(only_ends_) + held(seen_at_) + held(rule_starts_) +
           held(ranks_) + held(rule_names_) + held(token_sets_) + held(distinct_) + held(guards_) + held(counted_);
  for (const auto& set : token_sets_) bytes_ += held(set) + kHeapBlock;
  for (State& s : states_) {
    s.edges.shrink_to_fit();
    bytes_ += held(s.edges) + kHeapBlock;
  }
  for (const Closed& c : closed_)
    if (c.made) bytes_ += held(c.edges) + kHeapBlock;
}

std::uint32_t Network::add_state(std::uint32_t rule, Work& work) {
  work.share(32);
  if (states_.size() >= max_states_) limit_reached("states", "the grammar needs too many states");
  states_.push_back({{}, false, rule});
  return static_cast<std::uint32_t>(states_.size() - 1);
}

void Network::add_edge(std::uint32_t from, Edge edge) { states_[from].edges.push_back(edge); }

std::uint32_t Network::helper_rule(std::uint32_t node, std::uint32_t named_after) {
  if (helper_of_[node] == kNone) {
    helper_of_[node] = static_cast<std::uint32_t>(rule_nodes_.size());
    rule_nodes_.push_back(node);
    rule_names_.push_back(named_after);
    rule_starts_.push_back(kNone);
    rule_ends_.push_back(kNone);
  }
  return helper_of_[node];
}

// Equal token sets are stored once: a set may hold most of the vocabulary.
std::uint32_t Network::token_set_of(const Ir& ir, std::uint32_t node, Work& work) {
  const auto [at, is_new] =
      token_set_at_.try_emplace({ir.a[node], ir.b[node]}, static_cast<std::uint32_t>(token_sets_.size()));
  if (is_new) {
    work.spend(ir.b[node]);
    const auto ids = std::span(ir.tokens).subspan(ir.a[node], ir.b[node]);
    token_sets_.emplace_back(ids.begin(), ids.end());
    std::ranges::sort(token_sets_.back());
  }
  return at->second;
}

void Network::build(const Ir& ir, Lexicon& lexicon, Work& work) {
  const std::vector<TermId> terms = make_terms(ir, lexicon.terms(), work);
  helper_of_.assign(ir.size(), kNone);
  holds_names_.assign(ir.size(), false);
  for (std::uint32_t i = 0; i < ir.size(); ++i)
    holds_names_[i] = ir.kind(i) == NodeKind::distinct || ir.kind(i) == NodeKind::guard ||
                      std::ranges::any_of(ir.children_of(i), [&](std::uint32_t c) { return holds_names_[c]; });
  rule_nodes_ = ir.rules;
  for (std::uint32_t r = 0; r < ir.rules.size(); ++r) rule_names_.push_back(r);
  rule_starts_.assign(ir.rules.size(), kNone);
  rule_ends_.assign(ir.rules.size(), kNone);
  for (std::uint32_t r = 0; r < rule_nodes_.size(); ++r) build_node(ir, lexicon, terms, r, rule_nodes_[r], work);
  start_ = ir.start;  // the rule, until the passes below are done
  token_set_at_.clear();
}

void Network::build_node(const Ir& ir, Lexicon& lexicon, const std::vector<TermId>& terms, std::uint32_t rule,
                         std::uint32_t root, Work& work) {
  struct Piece {
    std::uint32_t node, from, to;
  };
  const std::uint32_t name = rule_names_[rule];
  rule_starts_[rule] = add_state(name, work);
  rule_ends_[rule] = add_state(name, work);
  states_[rule_ends_[rule]].final = true;
  std::vector<Piece> todo{{root, rule_starts_[rule], rule_ends_[rule]}};
  while (!todo.empty()) {
    const auto [node, from, to] = todo.back();
    todo.pop_back();
    work.spend(4);
    work.share(20);
    if (terms[node] != kNone) {
      add_edge(from, {Kind::term, terms[node], to});
      continue;
    }
    const auto inner = ir.children_of(node);
    switch (ir.kind(node)) {
      case NodeKind::rule:
        add_edge(from, {Kind::call, ir.a[node], to});
        break;
      case NodeKind::token:
        add_edge(from, {Kind::token, token_set_of(ir, node, work), to});
        break;
      case NodeKind::distinct:
        if (lexicon.terms()[terms[inner[0]]].nullable) throw Error("ir_invalid", "a name that may be empty text");
        add_edge(from, {Kind::distinct, static_cast<std::uint32_t>(distinct_.size()), to});
        distinct_.push_back({terms[inner[0]], static_cast<std::uint8_t>(ir.a[node]), ir.b[node] - 1});
        break;
      case NodeKind::counted:
        if (lexicon.terms()[terms[inner[0]]].nullable) add_edge(from, {Kind::empty, 0, to});
        add_edge(from, {Kind::counted, static_cast<std::uint32_t>(counted_.size()), to});
        counted_.push_back({terms[inner[0]], ir.a[node]});
        break;
      case NodeKind::guard:
        add_edge(from, {Kind::guard, static_cast<std::uint32_t>(guards_.size()), to});
        guards_.push_back({ir.a[node], ir.b[node] / 4, (ir.b[node] & 1) != 0, (ir.b[node] & 2) != 0});
        break;
      case NodeKind::seq: {
        std::uint32_t at = from;
        for (std::size_t j = 0; j < inner.size(); ++j) {
          const std::uint32_t next = j + 1 == inner.size() ? to : add_state(name, work);
          todo.push_back({inner[j], at, next});
          at = next;
        }
        if (inner.empty()) add_edge(from, {Kind::empty, 0, to});
        break;
      }
      case NodeKind::alt:
        for (std::uint32_t c : inner) todo.push_back({c, from, to});
        break;
      case NodeKind::repeat: {
        const std::uint32_t min = ir.a[node], max = ir.b[node];
        const std::uint64_t copies = max == 0xffffffff ? static_cast<std::uint64_t>(min) + 1 : max;
        std::uint32_t item = inner[0];
        const bool one_edge = terms[item] != kNone || ir.kind(item) == NodeKind::rule;
        // A large item that is repeated becomes a rule of its own, so that each copy is one edge.
        // Not so if it holds names that may come only once in a run of this rule.
        const std::uint32_t call = !one_edge && copies > 1 && !holds_names_[item] ? helper_rule(item, name) : kNone;
        const auto copy = [&](std::uint32_t a, std::uint32_t b) {
          if (call != kNone) {
            add_edge(a, {Kind::call, call, b});
          } else {
            todo.push_back({item, a, b});
          }
        };
        std::uint32_t at = from;
        for (std::uint32_t j = 0; j < min; ++j) {
          const std::uint32_t next = add_state(name, work);
          copy(at, next);
          at = next;
        }
        if (max == 0xffffffff) {
          const std::uint32_t loop = add_state(name, work);
          add_edge(at, {Kind::empty, 0, loop});
          copy(loop, loop);
          add_edge(loop, {Kind::empty, 0, to});
        } else {
          add_edge(at, {Kind::empty, 0, to});
          for (std::uint32_t j = min; j < max; ++j) {
            const std::uint32_t next = add_state(name, work);
            copy(at, next);
            add_edge(next, {Kind::empty, 0, to});
            at = next;
          }
        }
        break;
      }
      default:
        break;
    }
  }
}

// Which states can reach the end of their rule along edges that `passes` lets through; a call passes where its rule's
// start can. Each edge is looked at when its target is settled, and once more when the rule it calls is.
std::vector<bool> Network::backward(const std::function<bool(const Edge&)>& passes, Work& work) const {
  struct Source {
    std::uint32_t state;
    Edge edge;
  };
  const std::size_t n = states_.size();
  Grouped<Source> sources(n), callers(rule_count());  // by state, and by rule
  for (const State& s : states_)
    for (const Edge& e : s.edges) {
      sources.count(e.to);
      if (e.kind == Kind::call) callers.count(e.label);
    }
  sources.counted();
  callers.counted();
  for (std::uint32_t s = 0; s < n; ++s)
    for (const Edge& e : states_[s].edges) {
      sources.add(e.to, {s, e});
      if (e.kind == Kind::call) callers.add(e.label, {s, e});
    }
  std::vector<std::uint32_t> rule_started_at(n, kNone);
  for (std::uint32_t r = 0; r < rule_count(); ++r) rule_started_at[rule_starts_[r]] = r;
  std::vector<bool> settled(n);
  std::vector<std::uint32_t> todo;
  const auto settle = [&](std::uint32_t s) {
    if (settled[s]) return;
    settled[s] = true;
    todo.push_back(s);
  };
  for (std::uint32_t s = 0; s < n; ++s)
    if (states_[s].final) settle(s);
  while (!todo.empty()) {
    const std::uint32_t s = todo.back();
    todo.pop_back();
    work.spend();
    for (const auto& [source, e] : sources.of(s)) {
      if (settled[source]) continue;
      if (e.kind == Kind::call ? static_cast<bool>(settled[rule_starts_[e.label]]) : passes(e)) settle(source);
    }
    if (rule_started_at[s] == kNone) continue;
    for (const auto& [source, e] : callers.of(rule_started_at[s]))
      if (settled[e.to]) settle(source);
  }
  return settled;
}

// Keeps only states that can end and edges that some text can take; refuses a grammar that no text satisfies.
void Network::trim(Lexicon& lexicon, Work& work) {
  const auto takeable = [&](const Edge& e) {
    if (e.kind == Kind::term) return lexicon.alive(e.label, work);
    if (e.kind == Kind::distinct) return lexicon.alive(distinct_[e.label].term, work);
    if (e.kind == Kind::counted) return lexicon.alive(counted_[e.label].term, work);
    return e.kind != Kind::token || !token_sets_[e.label].empty();
  };
  const std::vector<bool> useful = backward(takeable, work);
  if (!useful[rule_starts_[start_]]) throw Error("unsatisfiable", "no text satisfies the grammar");
  for (State& s : states_)
    std::erase_if(s.edges, [&](const Edge& e) {
      return !useful[e.to] || (e.kind == Kind::call ? !useful[rule_starts_[e.label]] : !takeable(e));
    });
}

// Calls and terms that may read nothing get an empty edge beside them. After that, a call reads at least one byte.
void Network::bypass_nullable(Lexicon& lexicon, Work& work) {
  const auto reads_nothing = [&](const Edge& e) {
    return e.kind == Kind::empty || (e.kind == Kind::term && lexicon.terms()[e.label].nullable);
  };
  const std::vector<bool> can_end = backward(reads_nothing, work);
  const std::vector<bool> may_end =
      guards_.empty() ? can_end
                      : backward([&](const Edge& e) { return e.kind == Kind::guard || reads_nothing(e); }, work);
  for (std::uint32_t start : rule_starts_)
    if (may_end[start] && !can_end[start]) throw Error("ir_invalid", "names decide whether a rule may read nothing");
  for (State& s : states_) {
    const std::size_t count = s.edges.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Edge e = s.edges[i];
      if (e.kind == Kind::call ? static_cast<bool>(can_end[rule_starts_[e.label]])
                               : e.kind != Kind::empty && reads_nothing(e))
        s.edges.push_back({Kind::empty, 0, e.to});
    }
    // A term that accepts the empty text alone has been replaced by its by-pass.
    std::erase_if(s.edges, [](const Edge& e) { return e.kind == Kind::term && e.label == kEmpty; });
  }
}

// Where only empty edges lead on, and at least one of the states they lead to ends the rule.
void Network::find_ends() {
  const std::size_t n = states_.size();
  Grouped<std::uint32_t> sources(n);       // along empty edges
  std::vector<std::uint32_t> reads, ends;  // states that read something, or end
  for (const State& s : states_)
    for (const Edge& e : s.edges)
      if (e.kind == Kind::empty) sources.count(e.to);
  sources.counted();
  for (std::uint32_t s = 0; s < n; ++s) {
    if (states_[s].final) ends.push_back(s);
    bool reading = false;
    for (const Edge& e : states_[s].edges) {
      if (e.kind == Kind::empty) {
        sources.add(e.to, s);
      } else {
        reading = true;
      }
    }
    if (reading) reads.push_back(s);
  }
  const auto spread = [&](std::vector<std::uint32_t> todo) {
    std::vector<bool> reached(n);
    for (std::uint32_t s : todo) reached[s] = true;
    while (!todo.empty()) {
      const std::uint32_t s = todo.back();
      todo.pop_back();
      for (std::uint32_t source : sources.of(s))
        if (!reached[source]) {
          reached[source] = true;
          todo.push_back(source);
        }
    }
    return reached;
  };
  const std::vector<bool> can_read = spread(std::move(reads)), can_end = spread(std::move(ends));
  only_ends_.resize(n);
  for (std::uint32_t s = 0; s < n; ++s) only_ends_[s] = can_end[s] && !can_read[s];
}

const Network::Closed& Network::closed(std::uint32_t state, Work* work) {
  if (closed_.size() <= state) closed_.resize(states_.size());
  Closed& c = closed_[state];
  if (c.made) return c;
  if (seen_at_.size() < states_.size()) seen_at_.resize(states_.size());
  ++visit_;
  std::vector<std::uint32_t> todo{state};
  seen_at_[state] = visit_;
  while (!todo.empty()) {
    const State& s = states_[todo.back()];
    todo.pop_back();
    c.final = c.final || s.final;
    if (work != nullptr) work->spend(1 + s.edges.size());
    for (const Edge& e : s.edges) {
      if (e.kind != Kind::empty) {
        c.edges.push_back(e);
        c.guarded = c.guarded || e.kind == Kind::guard;
      } else if (seen_at_[e.to] != visit_) {
        seen_at_[e.to] = visit_;
        todo.push_back(e.to);
      }
    }
  }
  const auto key = [](const Edge& e) { return std::tuple(e.kind, e.label, e.to); };
  std::ranges::sort(c.edges, {}, key);
  const auto duplicates = std::ranges::unique(c.edges, {}, key);
  c.edges.erase(duplicates.begin(), duplicates.end());
  bytes_ += held(c.edges) + kHeapBlock;
  c.made = true;
  return c;
}

std::vector<TermId> Network::terms() const {
  std::vector<TermId> found;
  for (const State& s : states_)
    for (const Edge& e : s.edges)
      if (e.kind == Kind::term) found.push_back(e.label);
  for (const Distinct& one : distinct_) found.push_back(one.term);
  for (const Counted& one : counted_) found.push_back(one.term);
  std::ranges::sort(found);
  const auto duplicates = std::ranges::unique(found);
  found.erase(duplicates.begin(), duplicates.end());
  return found;
}

std::uint64_t Network::edge_cost(const Edge& edge, Lexicon& lexicon, Work& work) {
  switch (edge.kind) {
    case Kind::empty:
    case Kind::guard:
      return 0;
    case Kind::token:
      return 1;
    case Kind::term:
      return lexicon.shortest_length(edge.label, work);
    case Kind::counted:
      return lexicon.shortest_length(counted_[edge.label].term, work);
    case Kind::distinct:
      return lexicon.shortest_length(distinct_[edge.label].term, work);
    case Kind::call:
      return costs_[rule_starts_[edge.label]];
  }
  return 0;
}

// Knuth's generalisation of Dijkstra's algorithm: states are settled in order of cost, and a call costs what its rule's
// start was settled at. A rule's start may be final where it may read nothing; such a call has a by-pass of the same
// cost.
const std::vector<std::uint64_t>& Network::costs(Lexicon& lexicon, Work& work) {
  if (!costs_.empty()) return costs_;
  struct Source {
    std::uint32_t state, to;
    std::uint64_t cost;  // of the edge; of a call, not known yet
  };
  const std::size_t n = states_.size();
  std::vector<std::uint64_t> best(n, kFar);
  std::vector<bool> settled(n);
  std::vector<std::vector<Source>> sources(n), callers(rule_count());
  std::vector<std::uint32_t> rule_started_at(n, kNone);
  for (std::uint32_t r = 0; r < rule_count(); ++r) rule_started_at[rule_starts_[r]] = r;
  constexpr std::uint64_t call = ~0ull;
  for (std::uint32_t s = 0; s < n; ++s)
    for (const Edge& e : states_[s].edges) {
      const bool is_call = e.kind == Kind::call;
      sources[e.to].push_back(
          {s, is_call ? rule_starts_[e.label] : kNone, is_call ? call : edge_cost(e, lexicon, work)});
      if (is_call) callers[e.label].push_back({s, e.to, call});
    }
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto offer = [&](std::uint32_t state, std::uint64_t cost) {
    if (settled[state] || cost >= best[state]) return;
    best[state] = cost;
    queue.push({cost, state});
  };
  for (std::uint32_t s = 0; s < n; ++s)
    if (states_[s].final) offer(s, 0);
  while (!queue.empty()) {
    const auto [cost, s] = queue.top();
    queue.pop();
    if (settled[s]) continue;
    settled[s] = true;
    work.spend();
    for (const Source& source : sources[s]) {
      if (source.cost != call) {
        offer(source.state, add_costs(cost, source.cost));
      } else if (settled[source.to]) {  // here: the start of the called rule
        offer(source.state, add_costs(cost, best[source.to]));
      }
    }
    if (rule_started_at[s] == kNone) continue;
    for (const Source& caller : callers[rule_started_at[s]])
      if (settled[caller.to]) offer(caller.state, add_costs(cost, best[caller.to]));
  }
  costs_ = std::move(best);
  bytes_ += held(costs_);
  return costs_;
}

}  // namespace narrows
