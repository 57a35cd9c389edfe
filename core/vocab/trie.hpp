// The vocabulary's tokens as a prefix tree in depth-first order, so that a walk is one pass over flat arrays.
//
//   nodes   0 is the root. The subtree of node i is [i, end(i)). Its first child is i + 1; the next sibling of c is
//           end(c).
//   tokens  token ids in the same order: those at node i are [tokens_at(i)), those in its subtree [tokens_below(i)).
//
// Built once per vocabulary in O(total bytes * log); about 24 bytes per node, two nodes per token.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "intern.hpp"

namespace narrows {

// Bytes fall into 64 groups, fine where JSON and code tell characters apart, so that a set of bytes fits a word.
using Groups = std::uint64_t;
const std::array<std::uint8_t, 256>& byte_groups();

class Trie {
 public:
  // `bytes` joined, token t is bytes[offsets[t]..offsets[t+1]). Tokens without bytes are in no node.
  Trie(std::vector<std::uint8_t> bytes, std::vector<std::uint64_t> offsets);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t end(std::uint32_t node) const { return ends_[node]; }
  std::uint8_t byte(std::uint32_t node) const { return bytes_[node]; }
  std::span<const std::uint32_t> tokens_at(std::uint32_t node) const { return range(node, node + 1); }
  std::span<const std::uint32_t> tokens_below(std::uint32_t node) const { return range(node, ends_[node]); }
  // The groups of all bytes below the node, and the number of bytes from the node to the end of the longest token.
  Groups groups_below(std::uint32_t node) const { return groups_[node]; }
  std::uint32_t height(std::uint32_t node) const { return heights_[node]; }
  // The child of the root for this first byte, or kNone.
  std::uint32_t root_child(std::uint8_t byte) const { return root_children_[byte]; }
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;

  // Some token starts with these bytes and is longer.
  bool extends(std::span<const std::uint8_t> bytes) const;
  // The fewest tokens that join to the bytes; false where none do. O(bytes * longest token).
  bool segment(std::span<const std::uint8_t> bytes, std::vector<std::uint32_t>& out) const;

  std::uint32_t token_count() const { return static_cast<std::uint32_t>(offsets_.size() - 1); }
  std::span<const std::uint8_t> token(std::uint32_t id) const {
    return std::span(token_bytes_).subspan(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  std::uint32_t longest_token() const { return longest_; }
  std::size_t memory() const;

 private:
  std::span<const std::uint32_t> range(std::uint32_t from, std::uint32_t to) const {
    return std::span(tokens_).subspan(first_token_[from], first_token_[to] - first_token_[from]);
  }
  std::vector<std::uint8_t> token_bytes_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint8_t> bytes_;
  std::vector<Groups> groups_;
  std::vector<std::uint32_t> heights_;
  std::vector<std::uint32_t> first_token_;  // one more than nodes
  std::vector<std::uint32_t> tokens_;
  std::array<std::uint32_t, 256> root_children_{};
  std::uint32_t longest_ = 0;
};

}  // namespace narrows
