// Searches growing text for a few literal markers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "automata/byteset.hpp"
#include "stream/characters.hpp"

namespace narrows {

class Markers {
 public:
  static constexpr int kNone = -1, kBegun = -2;
  struct Found {
    std::size_t at;
    int which;  // which marker, or kNone
  };

  Markers() = default;
  // If one marker is a prefix of another, the longer one must come first. It wins, so the shorter one waits for it.
  explicit Markers(std::vector<std::u32string> all);

  // The marker at `at`; kBegun: the text from there on is a prefix of one (never if the text is `final`).
  int match(const Characters& text, std::size_t at, bool final) const;
  // The first marker from `pos` on. If there is none: the text before `at` holds none, and the text from `at` on is a
  // prefix of one.
  Found search(const Characters& text, std::size_t pos, bool final) const;

  bool may_begin_with(char32_t c) const { return c < 0x80 ? firsts_.has(static_cast<std::uint8_t>(c)) : beyond_ascii_; }
  const std::vector<std::u32string>& all() const { return all_; }

 private:
  std::vector<std::u32string> all_;
  ByteSet firsts_;             // first characters of the markers;
  bool beyond_ascii_ = false;  // of those beyond ASCII, only whether there are any
};

}  // namespace narrows
