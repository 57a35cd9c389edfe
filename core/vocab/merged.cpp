#include "vocab/merged.hpp"

#include <algorithm>
#include <functional>

namespace narrows {

MergedTree::MergedTree(const Tree& tree, std::span<const std::uint32_t> roots,
                       const std::array<std::uint8_t, 256>& keys) {
  struct Open {
    std::uint32_t depth;
    std::uint8_t byte;
    std::vector<std::uint32_t> nodes;
  };
  std::vector<Open> todo;  // the next one last
  todo.push_back({0, 0, {roots.begin(), roots.end()}});
  std::vector<std::uint32_t> path;                       // from the root to the node before
  std::array<std::vector<std::uint32_t>, 256> children;  // of all the nodes, by key
  std::vector<std::uint8_t> used;                        // keys with children
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
    used.clear();
    for (std::uint32_t node : here.nodes) {
      if (here.depth > 0) {
        const auto tokens = tree.tokens_at(node);
        tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
      }
      below |= tree.groups_below(node);
      height = std::max(height, tree.height(node));
      for (std::uint32_t c = node + 1; c < tree.end(node); c = tree.end(c)) {
        const std::uint8_t key = keys[tree.byte(c)];
        if (children[key].empty()) used.push_back(key);
        children[key].push_back(c);
      }
    }
    groups_.push_back(below);
    heights_.push_back(height);
    std::ranges::sort(used, std::greater());
    for (std::uint8_t key : used) {
      todo.push_back({here.depth + 1, tree.byte(children[key][0]), std::move(children[key])});
      children[key].clear();
    }
  }
  for (std::uint32_t node : path) ends_[node] = size();
  first_token_.push_back(static_cast<std::uint32_t>(tokens_.size()));
  first_node_.push_back(static_cast<std::uint32_t>(nodes_.size()));
}

}  // namespace narrows
