// Subtrees of a prefix tree, laid over each other: what they have in common is one node.
//
// There are two uses. The vocabulary's whole tree with all bytes of a group made one (groups.hpp): tokens that look
// alike in groups share their nodes. Most automata of text tell few bytes apart, and a walk over that tree visits a
// fifth of the nodes. And the subtrees below the nodes where a terminal may end: many tokens go on there with the same
// bytes, such as `",`.
//
// Built in one pass over the subtrees. `byte` is some byte of those that a node stands for. The root stands for all
// roots of the subtrees, and has no tokens itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "vocab/tree.hpp"

namespace narrows {

constexpr std::array<std::uint8_t, 256> make_bytes_themselves() {
  std::array<std::uint8_t, 256> keys{};
  for (std::size_t b = 0; b < keys.size(); ++b) keys[b] = static_cast<std::uint8_t>(b);
  return keys;
}

// Keys that tell all bytes apart.
inline constexpr std::array<std::uint8_t, 256> kBytesThemselves = make_bytes_themselves();

class MergedTree : public Tree {
 public:
  MergedTree() = default;
  // `keys`: by byte. Bytes with the same key are one.
  MergedTree(const Tree& tree, std::span<const std::uint32_t> roots, const std::array<std::uint8_t, 256>& keys);

  // The nodes that it stands for.
  std::span<const std::uint32_t> nodes_at(std::uint32_t node) const {
    return std::span(nodes_).subspan(first_node_[node], first_node_[node + 1] - first_node_[node]);
  }
  std::size_t memory() const { return tree_memory() + (first_node_.size() + nodes_.size()) * 4; }

 private:
  std::vector<std::uint32_t> first_node_;  // one more than nodes
  std::vector<std::uint32_t> nodes_;
};

}  // namespace narrows
