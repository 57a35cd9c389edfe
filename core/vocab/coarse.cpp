#include "vocab/coarse.hpp"

#include <algorithm>
#include <array>

namespace narrows {

CoarseTrie::CoarseTrie(const Tree& trie) {
  struct Open {
    std::uint32_t depth;
    std::uint8_t byte;
    std::vector<std::uint32_t> nodes;
  };
  std::vector<Open> todo;  // the next one last
  todo.push_back({0, 0, {0}});
  std::vector<std::uint32_t> path;                      // from the root to the node before
  std::array<std::vector<std::uint32_t>, 64> children;  // of all the nodes, by group
  while (!todo.empty()) {
    const Open here = std::move(todo.back());
    todo.pop_back();
    const std::uint32_t id = size();
    for (; path.size() > here.depth; path.pop_back()) ends_[path.back()] = id;
    path.push_back(id);
    ends_.push_back(0);
    bytes_.push_back(here.byte);
    first_token_.push_back(static_cast<std::uint32_t>(tokens_.size()));
    first_node_.push_back(static_cast<std::uint32_t>(nodes_.size()));
    nodes_.insert(nodes_.end(), here.nodes.begin(), here.nodes.end());
    Groups below = 0;
    std::uint32_t height = 0;
    for (std::uint32_t node : here.nodes) {
      const auto tokens = trie.tokens_at(node);
      tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
      below |= trie.groups_below(node);
      height = std::max(height, trie.height(node));
      for (std::uint32_t c = node + 1; c < trie.end(node); c = trie.end(c))
        children[kByteGroups[trie.byte(c)]].push_back(c);
    }
    groups_.push_back(below);
    heights_.push_back(height);
    for (std::size_t group = children.size(); group-- > 0;) {
      if (children[group].empty()) continue;
      todo.push_back({here.depth + 1, trie.byte(children[group][0]), std::move(children[group])});
      children[group].clear();
    }
  }
  for (std::uint32_t node : path) ends_[node] = size();
  first_token_.push_back(static_cast<std::uint32_t>(tokens_.size()));
  first_node_.push_back(static_cast<std::uint32_t>(nodes_.size()));
}

}  // namespace narrows
