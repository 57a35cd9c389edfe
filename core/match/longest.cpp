// By the longest match: the tokens that end a terminal and go on with what follows it.
//
// Which terminal ends where depends on all terminals that are open. So these tokens are looked for once for the
// configuration, not for each terminal. They begin at the nodes at which one of the terminals can end, with a byte that
// none of them takes. As elsewhere, they depend on the top of the stack alone, and are remembered for it.
#include <algorithm>

#include "match/constraint.hpp"
#include "sort_ids.hpp"

namespace narrows {

std::uint32_t Constraint::cross_longest(ConfigId config, Work& spare) {
  std::vector<std::uint32_t> crossings;
  if (stacks_->next(config) != kNone) crossings.push_back(0);  // the records have what ends after a byte
  const std::vector<Item> items(stacks_->items(config).begin(), stacks_->items(config).end());
  for (const Item& item : items) {
    const TermId of = lexicon().inside(lexicon().clamp_inside(item.label, spare), spare).crossings_of;
    const auto& some = lexicon().inside(of, spare).crossings;
    spare.spend(some.size() / 4);
    crossings.insert(crossings.end(), some.begin(), some.end());
  }
  if (crossings.empty()) return kNone;
  if (items.size() > 1) {
    spare.spend(2 * crossings.size());
    sort_ids(crossings, vocabulary_->trie().size());
  }
  for (std::uint32_t depth = 2;; depth *= 2) {
    const ConfigId top = stacks_->top_config(config, depth, spare);
    std::uint32_t known = crossed_.find(top, 0);
    if (known == kNone) {
      known = cross_lists_.add(walk_longest(top, crossings, spare), depth);
      crossed_.insert(top, 0, known);
    }
    const CrossLists::List& list = cross_lists_[known];
    if (list.is_all()) return list.is_empty() ? kNone : known;
  }
}

// Goes down to each of the crossings, in the order of the trie, and from there on.
CrossWalk Constraint::walk_longest(ConfigId config, std::span<const std::uint32_t> crossings, Work& spare) {
  const Trie& trie = vocabulary_->trie();
  struct Open {
    std::uint32_t end, child;  // the first child that has not been passed
    ConfigId config;
  };
  CrossWalk found;
  found.reached_cut = stacks_->reached_cut(config);
  std::vector<Open> path{{trie.end(0), 1, config}};
  ConfigId seen = kNone;
  ByteSet open, any;
  for (std::size_t i = 0; i < crossings.size() && !found.reached_cut; ++i) {
    if (i % 64 == 0) check_memory();
    const std::uint32_t crossing = crossings[i];
    while (crossing >= path.back().end) path.pop_back();
    for (bool there = crossing == 0; !there;) {
      Open& above = path.back();
      spare.spend(2);
      while (trie.end(above.child) <= crossing) {
        above.child = trie.end(above.child);
        spare.spend(1);
      }
      const std::uint32_t node = above.child;
      const ConfigId at = stacks_->step(above.config, trie.byte(node), spare);
      there = node == crossing;
      path.push_back({trie.end(node), node + 1, at});
    }
    const Open here = path.back();
    found.reached_cut = stacks_->reached_cut(here.config);
    if (found.reached_cut || here.config == kDead) continue;
    if (here.config != seen) {
      seen = here.config;
      any = stacks_->first(seen, spare);
      open = stacks_->next(seen) == kNone ? ByteSet() : stacks_->first_open(seen, spare);
    }
    for (std::uint32_t node = here.child; node < here.end; node = trie.end(node)) {
      spare.spend(1);
      const std::uint8_t byte = trie.byte(node);
      if (!any.has(byte) || open.has(byte)) continue;
      const ConfigId after = stacks_->step(here.config, byte, spare);
      if (after != kDead && !walk_after(after, node, found, spare)) return found;
    }
  }
  return found;
}

// All tokens at and below a node, which the configuration has reached. False where the stack was cut too high.
bool Constraint::walk_after(ConfigId config, std::uint32_t from, CrossWalk& found, Work& spare) {
  const Trie& trie = vocabulary_->trie();
  struct Open {
    std::uint32_t end;
    ConfigId config;
  };
  std::vector<Open> path;
  ConfigId at = config;
  for (std::uint32_t node = from; node < trie.end(from);) {
    while (!path.empty() && node >= path.back().end) path.pop_back();
    spare.spend(2);
    if (!path.empty()) at = stacks_->step(path.back().config, trie.byte(node), spare);
    if (at == kDead) {
      node = trie.end(node);
      continue;
    }
    found.reached_cut = stacks_->reached_cut(at);
    if (found.reached_cut) return false;
    const bool all = trie.end(node) > node + 8 && takes_all(at, trie.groups_below(node), spare);
    const auto tokens = all ? trie.tokens_below(node) : trie.tokens_at(node);
    spare.spend(tokens.size() / 4);
    found.tokens.insert(found.tokens.end(), tokens.begin(), tokens.end());
    if (!all) path.push_back({trie.end(node), at});
    node = all ? trie.end(node) : node + 1;
  }
  return true;
}

}  // namespace narrows
