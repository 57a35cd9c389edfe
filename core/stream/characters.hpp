// The characters of a Python string, as they lie in memory: one, two or four bytes each. A view; it owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace narrows {

class Characters {
 public:
  explicit Characters(std::span<const std::uint8_t> narrow) : narrow_(narrow), size_(narrow.size()) {}
  explicit Characters(std::span<const std::uint16_t> medium) : medium_(medium), size_(medium.size()) {}
  explicit Characters(std::u32string_view wide) : wide_(wide), size_(wide.size()) {}

  std::size_t size() const { return size_; }
  char32_t operator[](std::size_t at) const {
    if (!narrow_.empty()) return narrow_[at];
    return medium_.empty() ? wide_[at] : medium_[at];
  }

 private:
  std::span<const std::uint8_t> narrow_;  // one of the three is not empty, unless there are no characters
  std::span<const std::uint16_t> medium_;
  std::u32string_view wide_;
  std::size_t size_;
};

// As JSON has them.
inline bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace narrows
