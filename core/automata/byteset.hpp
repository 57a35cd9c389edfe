// A set of bytes: four words, compared and combined by value.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "vocab/groups.hpp"

namespace narrows {

struct ByteSet {
  std::array<std::uint64_t, 4> words{};

  static ByteSet all() { return {{~0ull, ~0ull, ~0ull, ~0ull}}; }
  bool has(std::uint8_t b) const { return (words[b >> 6] >> (b & 63)) & 1; }
  void add(std::uint8_t b) { words[b >> 6] |= 1ull << (b & 63); }
  void remove(std::uint8_t b) { words[b >> 6] &= ~(1ull << (b & 63)); }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  int count() const {
    return std::popcount(words[0]) + std::popcount(words[1]) + std::popcount(words[2]) + std::popcount(words[3]);
  }
  // The lowest byte in the set; the set must not be empty.
  std::uint8_t first() const {
    for (unsigned w = 0; w < 4; ++w)
      if (words[w]) return static_cast<std::uint8_t>(w * 64 + static_cast<unsigned>(std::countr_zero(words[w])));
    return 0;
  }
  // Calls `visit` with each byte of the set, in order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (unsigned w = 0; w < 4; ++w)
      for (std::uint64_t left = words[w]; left != 0; left &= left - 1)
        visit(static_cast<std::uint8_t>(w * 64 + static_cast<unsigned>(std::countr_zero(left))));
  }
  ByteSet& operator&=(const ByteSet& o) {
    for (unsigned w = 0; w < 4; ++w) words[w] &= o.words[w];
    return *this;
  }
  ByteSet& operator|=(const ByteSet& o) {
    for (unsigned w = 0; w < 4; ++w) words[w] |= o.words[w];
    return *this;
  }
  ByteSet operator~() const { return {{~words[0], ~words[1], ~words[2], ~words[3]}}; }
  friend ByteSet operator&(ByteSet a, const ByteSet& b) { return a &= b; }
  friend ByteSet operator|(ByteSet a, const ByteSet& b) { return a |= b; }
  friend bool operator==(const ByteSet&, const ByteSet&) = default;
};

// The groups that some byte of the set is in.
inline Groups groups_of(const ByteSet& bytes) {
  Groups found = 0;
  bytes.for_each([&](std::uint8_t b) { found |= group_of(b); });
  return found;
}

}  // namespace narrows
