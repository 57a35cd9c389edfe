// The trie with all bytes of a group made one (groups.hpp): tokens that look alike in groups share their nodes. Most
// automata of text tell few bytes apart, and a walk over this tree visits a fifth of the nodes.
//
// `byte` is some byte of the node's group. Each node knows the nodes of the trie that it stands for, so that a walk can
// go on there where the bytes of a group differ.
//
// Built once per vocabulary in one pass over the trie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vocab/tree.hpp"

namespace narrows {

class CoarseTrie : public Tree {
 public:
  CoarseTrie() = default;
  explicit CoarseTrie(const Tree& trie);

  // The nodes of the trie that it stands for.
  std::span<const std::uint32_t> nodes_at(std::uint32_t node) const {
    return std::span(nodes_).subspan(first_node_[node], first_node_[node + 1] - first_node_[node]);
  }
  std::size_t memory() const { return tree_memory() + (first_node_.size() + nodes_.size()) * 4; }

 private:
  std::vector<std::uint32_t> first_node_;  // one more than nodes
  std::vector<std::uint32_t> nodes_;
};

}  // namespace narrows
