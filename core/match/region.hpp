// The part of a tree that a walk is to look at: what is at and below some nodes. A walk in the order of the tree asks for
// each node that it comes to, and all questions together take a step for each of these nodes.
#pragma once

#include <cstdint>
#include <span>

#include "vocab/tree.hpp"

namespace narrows {

class Region {
 public:
  enum class Place : std::uint8_t { outside, above, inside };

  Region() = default;  // the whole tree
  // Nodes in order.
  Region(const Tree& tree, std::span<const std::uint32_t> nodes) : tree_(&tree), nodes_(nodes) {}

  // Where a node lies that does not come before those that were asked for; `above`: something below it is inside.
  Place place(std::uint32_t node) {
    if (tree_ == nullptr) return Place::inside;
    while (!nodes_.empty() && tree_->end(nodes_.front()) <= node) nodes_ = nodes_.subspan(1);
    if (nodes_.empty() || nodes_.front() >= tree_->end(node)) return Place::outside;
    return nodes_.front() <= node ? Place::inside : Place::above;
  }

 private:
  const Tree* tree_ = nullptr;
  std::span<const std::uint32_t> nodes_;  // that have not been passed
};

}  // namespace narrows
