// The vocabulary's tokens as a prefix tree, and the same tree with the bytes of a group made one.
//
// Built once per vocabulary in O(total bytes * log); about 24 bytes per node, two nodes per token, and half as much
// again for the coarse one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "intern.hpp"
#include "vocab/merged.hpp"
#include "vocab/tree.hpp"

namespace narrows {

class Trie : public Tree {
 public:
  // `bytes` joined, token t is bytes[offsets[t]..offsets[t+1]). Tokens without bytes are in no node.
  Trie(std::vector<std::uint8_t> bytes, std::vector<std::uint64_t> offsets);

  // The child of the root for this first byte, or kNone.
  std::uint32_t root_child(std::uint8_t byte) const { return root_children_[byte]; }
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;

  const MergedTree& coarse() const { return coarse_; }

  // Some token starts with these bytes and is longer.
  bool extends(std::span<const std::uint8_t> bytes) const;
  // Tokens whose bytes begin with these bytes, and tokens that these bytes begin with. Linear in the tokens.
  std::vector<std::uint32_t> along(std::span<const std::uint8_t> bytes) const;
  // The fewest tokens that join to the bytes; false where none do. O(bytes * longest token).
  bool segment(std::span<const std::uint8_t> bytes, std::vector<std::uint32_t>& out) const;

  std::uint32_t token_count() const { return static_cast<std::uint32_t>(offsets_.size() - 1); }
  std::span<const std::uint8_t> token(std::uint32_t id) const {
    return std::span(token_bytes_).subspan(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  std::uint32_t longest_token() const { return longest_; }
  std::size_t memory() const;

 private:
  std::vector<std::uint8_t> token_bytes_;
  std::vector<std::uint64_t> offsets_;
  std::array<std::uint32_t, 256> root_children_{};
  std::uint32_t longest_ = 0;
  MergedTree coarse_;
};

}  // namespace narrows
