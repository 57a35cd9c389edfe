// The characters of a text: bytes of ASCII, UTF-32, or what a function says of each. A view; it owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace narrows {

class Characters {
 public:
  using Read = char32_t(const void* text, std::size_t at);

  explicit Characters(std::span<const std::uint8_t> ascii) : ascii_(ascii), size_(ascii.size()) {}
  explicit Characters(std::u32string_view wide) : wide_(wide), size_(wide.size()) {}
  Characters(const void* text, Read* read, std::size_t size) : text_(text), read_(read), size_(size) {}

  std::size_t size() const { return size_; }
  // Given as ASCII. Other texts may be of ASCII, too.
  bool is_ascii() const { return !ascii_.empty(); }
  char32_t operator[](std::size_t at) const {
    if (!ascii_.empty()) return ascii_[at];
    return wide_.empty() ? read_(text_, at) : wide_[at];
  }

 private:
  std::span<const std::uint8_t> ascii_;  // where this and the next are empty, `read_` knows the characters
  std::u32string_view wide_;
  const void* text_ = nullptr;
  Read* read_ = nullptr;
  std::size_t size_;
};

// As JSON has them.
inline bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace narrows
