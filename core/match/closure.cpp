// What can come next: from the terminals that have just ended down the stack, and from there into the rules that are
// called.
#include "match/closure.hpp"

#include "match/stacks.hpp"

namespace narrows {

// Given the return sets of terminals that have just ended (or, at the start, the bottom).
void Stacks::close(std::span<const SetId> ended, bool at_start, Draft& draft, Work& work) {
  closure_.clear();
  pop(ended, at_start, draft, work);
  push(draft, work);
}

// Every state that is reached, with the nodes below it, until nothing new appears. Rules that are called read at least
// one byte, so pushing below never ends one here.
void Stacks::pop(std::span<const SetId> ended, bool at_start, Draft& draft, Work& work) {
  const auto reach = [&](std::uint32_t state, NameSet names, std::span<const std::uint32_t> below) {
    work.spend(12 + 8 * below.size());
    closure_.reach(state, names, below);
  };
  const auto end_below = [&](std::uint32_t node) {
    if (node == kBottom) {
      draft.accepting = true;
    } else if (node == kCut) {
      draft.reached_cut = true;
    } else if (const Node& n = nodes_[node]; Names::is_unread(n.reading)) {
      draft.left_out = true;
    } else {
      const bool reading = n.reading < Names::kSome;  // here the name ends
      reach(n.state, reading ? names_.add(n.names, n.reading, work) : n.names, nodes(n.below));
    }
  };
  if (at_start) {
    reach(network_.start_state(), Names::kNoNames, nodes(0));
  } else {
    for (SetId set : ended)
      for (std::uint32_t node : nodes(set)) end_below(node);
  }
  for (std::uint32_t at = closure_.next_open(); at != kNone; at = closure_.next_open()) {
    const auto [state, names] = closure_.place(at);
    const Network::Closed& here = network_.closed(state, &work);
    if (!here.final && !here.guarded) continue;
    std::vector<std::uint32_t>& through = closure_.through;
    through.clear();
    if (here.guarded) {
      draft.left_out = draft.left_out || names == Names::kUnknown;
      for (const Edge& e : here.edges)
        if (e.kind == Edge::Kind::guard && passes(e.label, names, work)) through.push_back(e.to);
    }
    for (std::uint32_t node = closure_.next_below(at); node != kNone; node = closure_.next_below(at)) {
      for (std::uint32_t to : through) reach(to, names, {&node, 1});
      if (here.final) end_below(node);
    }
  }
}

// Terminals become items; rules wait until all that call them here are known, callers first.
void Stacks::push(Draft& draft, Work& work) {
  for (std::uint32_t at = 0; at < closure_.place_count(); ++at) {
    const auto [state, names] = closure_.place(at);
    expand(state, intern_set(closure_.below(at), work), names, draft, work);
  }
  for (std::uint32_t call = closure_.next_call(); call != kNone; call = closure_.next_call()) {
    const std::uint32_t rule = closure_.rule(call);
    auto& [callers, sets] = closure_.call(call);
    closure_.end_call(call);
    std::ranges::sort(sets);
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    for (SetId set : sets) {
      const auto some = nodes(set);
      work.spend(1 + some.size());
      callers.insert(callers.end(), some.begin(), some.end());
    }
    const SetId below = intern_set(callers, work);
    std::vector<std::uint32_t>& starts = closure_.starts;  // and what its guards let through
    starts.assign(1, network_.rule_start(rule));
    for (std::size_t i = 0; i < starts.size(); ++i) {
      expand(starts[i], below, Names::kNoNames, draft, work);
      const Network::Closed& here = network_.closed(starts[i], &work);
      if (!here.guarded) continue;
      for (const Edge& e : here.edges)
        if (e.kind == Edge::Kind::guard && passes(e.label, Names::kNoNames, work) &&
            std::ranges::find(starts, e.to) == starts.end())
          starts.push_back(e.to);
    }
  }
}

void Stacks::expand(std::uint32_t state, SetId below, NameSet names, Draft& draft, Work& work) {
  const auto pushed = [&](const Node& node) {
    const std::uint32_t one = intern_node(node);
    return intern_sorted({&one, 1}, work);
  };
  for (const Edge& e : network_.closed(state, &work).edges) {
    work.spend(12);
    if (e.kind == Edge::Kind::guard) continue;  // gone through before
    if (e.kind == Edge::Kind::distinct) {
      const auto& [base, how, name] = network_.distinct(e.label);
      const auto spelling = static_cast<NameSpelling>(how);
      const bool known = names != Names::kUnknown && names != Names::kAny;
      const NameText fixed = fixed_[e.label];
      TermId term = base;
      if (known && name != kNone) {
        if (names_.has_all(names, {&fixed, 1}, work)) continue;
      } else if (known) {
        term = names_.without(base, spelling, names, work);
        if (!lexicon_.alive(term, work)) continue;
      }
      const NameText reading = names == Names::kUnknown ? (name != kNone ? Names::kOnce : Names::kUnread)
                               : !known                 ? Names::kSome
                               : name != kNone          ? fixed
                                                        : names_.begin(spelling);
      draft.terms.push_back({term, pushed({e.to, below, names, reading})});
      continue;
    }
    if (e.kind == Edge::Kind::counted) {
      const auto& [term, most] = network_.counted(e.label);
      draft.terms.push_back({term, pushed({e.to, below, names, Names::kNotReading, most | kUntouched})});
      continue;
    }
    const bool tail = network_.only_ends(e.to);  // then whoever is below is returned to directly
    if (e.kind == Edge::Kind::call) {
      Closure::Callers& callers = closure_.callers(network_.rank(e.label), e.label);
      if (tail) {
        callers.sets.push_back(below);
      } else {
        callers.nodes.push_back(intern_node({e.to, below, names}));
      }
      continue;
    }
    const SetId returns = tail ? below : pushed({e.to, below, names});
    (e.kind == Edge::Kind::term ? draft.terms : draft.tokens).push_back({e.label, returns});
  }
}

}  // namespace narrows
