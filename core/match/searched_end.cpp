// An end of a text that is cut by the longest match.
//
// There the network's costs are too low: what they join may be one terminal, as `if` and `x` are `ifx`. So an end is
// searched, over configurations, by what is written so far and twice what the network says is left. It need not be the
// shortest one. From a configuration go one byte of each open terminal, which begins its shortest text, and one of each
// terminal that may come next, which no open one takes.
//
// Cost: for each configuration that is met, a step for each of its items.
#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "match/below.hpp"
#include "match/matcher.hpp"
#include "match/shortest.hpp"

namespace narrows {
namespace {

class Search {
 public:
  Search(Constraint& constraint, Work& work)
      : stacks_(constraint.stacks()),
        network_(constraint.network()),
        lexicon_(constraint.lexicon()),
        work_(work),
        below_(stacks_, network_.costs(lexicon_, work_)) {}

  std::vector<Completion> from(ConfigId config) {
    reached_.emplace(config, Reached{0, kDead, kNone, 0});
    queue_.emplace(0, config);
    while (!queue_.empty()) {
      const ConfigId at = queue_.top().second;
      queue_.pop();
      if (stacks_.accepting(at)) return way_to(at);
      if (Reached& here = reached_.at(at); here.passed) {
        continue;
      } else {
        here.passed = true;
      }
      go_on(at);
    }
    throw Error("no_shortest_end", "no end of the text is within reach");
  }

 private:
  struct Reached {
    std::uint64_t cost;
    ConfigId before;
    std::uint32_t token;  // kNone: by the byte
    std::uint8_t byte;
    bool passed = false;
  };

  void go_on(ConfigId at) {
    ByteSet bytes;
    const ByteSet open = stacks_.first_open(at, work_);
    for (const Item& item : items(at)) bytes.add(first_of(item.label));
    if (const ConfigId next = stacks_.next(at); next != kNone) {
      for (const Item& item : items(next)) {
        ByteSet free = lexicon_.first_clamped(item.label, work_);
        if (const std::uint8_t first = first_of(item.label); !open.has(first)) free = ByteSet(), free.add(first);
        for (unsigned w = 0; w < free.words.size(); ++w) free.words[w] &= ~open.words[w];
        if (!free.empty()) bytes.add(free.first());
      }
    }
    bytes.for_each([&](std::uint8_t byte) { reach(at, kNone, byte, stacks_.step(at, byte, work_)); });
    const std::vector<Item> named(stacks_.token_items(at).begin(), stacks_.token_items(at).end());
    for (const Item& item : named) {
      const std::uint32_t token = network_.token_set(item.label)[0];
      reach(at, token, 0, stacks_.step_token(at, token, work_));
    }
  }

  std::vector<Item> items(ConfigId config) const {
    return {stacks_.items(config).begin(), stacks_.items(config).end()};
  }

  std::uint8_t first_of(TermId term) {
    text_.clear();
    lexicon_.shortest(term, text_, work_);
    if (!text_.empty()) return text_[0];
    return lexicon_.first_clamped(term, work_).first();  // it may end here, and this byte goes on
  }

  void reach(ConfigId from, std::uint32_t token, std::uint8_t byte, ConfigId to) {
    work_.spend(16);
    if (to == kDead) return;
    const std::uint64_t left = left_of(to);
    if (left >= kFar) return;
    const std::uint64_t cost = reached_.at(from).cost + 1;
    const auto [at, is_new] = reached_.try_emplace(to, Reached{cost, from, token, byte});
    if (!is_new && at->second.cost <= cost) return;
    at->second = {cost, from, token, byte};
    queue_.emplace(cost + 2 * left, to);
  }

  // By the network, which may be too little.
  std::uint64_t left_of(ConfigId config) {
    if (stacks_.accepting(config)) return 0;
    below_.settle(stacks_, network_.costs(lexicon_, work_));
    std::uint64_t best = kFar;
    for (const Item& item : items(config))
      best = std::min(best,
                      add_costs(lexicon_.shortest_length(item.label, work_), below_.set_cost(stacks_, item.returns)));
    for (const Item& item : stacks_.token_items(config))
      best = std::min(best, add_costs(1, below_.set_cost(stacks_, item.returns)));
    return best;
  }

  std::vector<Completion> way_to(ConfigId config) const {
    std::vector<const Reached*> way;
    for (const Reached* at = &reached_.at(config); at->before != kDead; at = &reached_.at(at->before))
      way.push_back(at);
    std::vector<Completion> out;
    for (auto step = way.rbegin(); step != way.rend(); ++step) {
      if ((*step)->token != kNone) {
        out.push_back({{}, (*step)->token});
        continue;
      }
      if (out.empty() || out.back().token != kNone) out.push_back({});
      out.back().bytes.push_back((*step)->byte);
    }
    return out;
  }

  Stacks& stacks_;
  Network& network_;
  Lexicon& lexicon_;
  Work& work_;
  Below below_;
  std::map<ConfigId, Reached> reached_;
  using Entry = std::pair<std::uint64_t, ConfigId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<std::uint8_t> text_;
};

}  // namespace

std::vector<Completion> searched_completion(Constraint& constraint, ConfigId config, Work& work) {
  return Search(constraint, work).from(config);
}

}  // namespace narrows
