#include "vocab/trie.hpp"

#include <algorithm>
#include <numeric>

namespace narrows {

Trie::Trie(std::vector<std::uint8_t> bytes, std::vector<std::uint64_t> offsets)
    : token_bytes_(std::move(bytes)), offsets_(std::move(offsets)) {
  std::vector<std::uint32_t> order(token_count());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::uint32_t t) { return token(t).empty(); });
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto x = token(a), y = token(b);
    const auto c = std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
    return c < 0 || (c == 0 && a < b);
  });

  std::vector<std::uint32_t> path{0};  // open nodes from the root to the last token
  ends_.push_back(0);
  bytes_.push_back(0);
  first_token_.push_back(0);
  std::span<const std::uint8_t> last;
  for (std::uint32_t t : order) {
    const auto text = token(t);
    longest_ = std::max(longest_, static_cast<std::uint32_t>(text.size()));
    std::size_t shared = 0;
    while (shared < last.size() && shared < text.size() && last[shared] == text[shared]) ++shared;
    for (; path.size() > shared + 1; path.pop_back()) ends_[path.back()] = size();
    for (std::size_t i = shared; i < text.size(); ++i) {
      path.push_back(size());
      ends_.push_back(0);
      bytes_.push_back(text[i]);
      first_token_.push_back(static_cast<std::uint32_t>(tokens_.size()));
    }
    tokens_.push_back(t);
    last = text;
  }
  for (; !path.empty(); path.pop_back()) ends_[path.back()] = size();
  first_token_.push_back(static_cast<std::uint32_t>(tokens_.size()));

  groups_.resize(size());
  heights_.resize(size());
  for (std::uint32_t node = size(); node-- > 0;)  // children come after their parents
    for (std::uint32_t c = node + 1; c < end(node); c = end(c)) {
      groups_[node] |= groups_[c] | (1ull << kByteGroups[byte(c)]);
      heights_[node] = std::max(heights_[node], heights_[c] + 1);
    }
  root_children_.fill(kNone);
  for (std::uint32_t c = 1; c < size(); c = end(c)) root_children_[byte(c)] = c;
  const std::uint32_t root = 0;
  coarse_ = MergedTree(*this, {&root, 1}, kByteGroups);
}

std::uint32_t Trie::child(std::uint32_t node, std::uint8_t wanted) const {
  if (node == 0) return root_children_[wanted];
  for (std::uint32_t c = node + 1; c < end(node); c = end(c)) {
    if (byte(c) == wanted) return c;
    if (byte(c) > wanted) break;
  }
  return kNone;
}

bool Trie::extends(std::span<const std::uint8_t> bytes) const {
  std::uint32_t node = 0;
  for (std::uint8_t b : bytes) {
    node = child(node, b);
    if (node == kNone) return false;
  }
  return end(node) > node + 1;
}

std::vector<std::uint32_t> Trie::along(std::span<const std::uint8_t> bytes) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t t = 0; t < token_count(); ++t) {
    const auto own = token(t);
    const std::size_t both = std::min(own.size(), bytes.size());
    if (both > 0 && std::ranges::equal(own.first(both), bytes.first(both))) out.push_back(t);
  }
  return out;
}

bool Trie::segment(std::span<const std::uint8_t> bytes, std::vector<std::uint32_t>& out) const {
  struct Best {
    std::uint32_t count = kNone, token = 0, from = 0;
  };
  std::vector<Best> best(bytes.size() + 1);
  best[0].count = 0;
  for (std::uint32_t from = 0; from < bytes.size(); ++from) {
    if (best[from].count == kNone) continue;
    std::uint32_t node = 0;
    for (std::uint32_t to = from; to < bytes.size(); ++to) {
      node = child(node, bytes[to]);
      if (node == kNone) break;
      if (!tokens_at(node).empty() && best[from].count + 1 < best[to + 1].count)
        best[to + 1] = {best[from].count + 1, tokens_at(node)[0], from};
    }
  }
  if (best[bytes.size()].count == kNone) return false;
  const std::size_t first = out.size();
  for (std::size_t at = bytes.size(); at > 0; at = best[at].from) out.push_back(best[at].token);
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  return true;
}

std::size_t Trie::memory() const {
  return token_bytes_.size() + offsets_.size() * 8 + tree_memory() + coarse_.memory();
}

}  // namespace narrows
