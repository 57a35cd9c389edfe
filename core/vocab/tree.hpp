// A prefix tree of tokens in depth-first order, so that a walk is one pass over flat arrays.
//
//   nodes   0 is the root. The subtree of node i is [i, end(i)). Its first child is i + 1; the next sibling of c is
//           end(c).
//   tokens  token ids in the same order: those at node i are [tokens_at(i)), those in its subtree [tokens_below(i)).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vocab/groups.hpp"

namespace narrows {

class Tree {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t end(std::uint32_t node) const { return ends_[node]; }
  std::uint8_t byte(std::uint32_t node) const { return bytes_[node]; }
  std::span<const std::uint32_t> tokens_at(std::uint32_t node) const { return range(node, node + 1); }
  std::span<const std::uint32_t> tokens_below(std::uint32_t node) const { return range(node, ends_[node]); }
  // The groups of all bytes below the node, and the number of bytes from the node to the end of the longest token.
  Groups groups_below(std::uint32_t node) const { return groups_[node]; }
  std::uint32_t height(std::uint32_t node) const { return heights_[node]; }

 protected:
  std::span<const std::uint32_t> range(std::uint32_t from, std::uint32_t to) const {
    return std::span(tokens_).subspan(first_token_[from], first_token_[to] - first_token_[from]);
  }
  std::size_t tree_memory() const { return ends_.size() * 21 + tokens_.size() * 4; }

  std::vector<std::uint32_t> ends_;
  std::vector<std::uint8_t> bytes_;
  std::vector<Groups> groups_;
  std::vector<std::uint32_t> heights_;
  std::vector<std::uint32_t> first_token_;  // one more than nodes
  std::vector<std::uint32_t> tokens_;
};

}  // namespace narrows
