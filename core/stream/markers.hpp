// A few literal markers, looked for in text that is still growing.
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
  // Where one marker begins another, the longer one is to stand first: it wins, so the shorter waits for it.
  explicit Markers(std::vector<std::u32string> all);

  // The marker at `at`; kBegun: the text from there on is the beginning of one (never where the text is `final`).
  int match(const Characters& text, std::size_t at, bool final) const;
  // The first marker from `pos` on. Without one, the text before `at` holds none, and what follows is the beginning of one.
  Found search(const Characters& text, std::size_t pos, bool final) const;

  bool may_begin_with(char32_t c) const { return c < 0x80 ? firsts_.has(static_cast<std::uint8_t>(c)) : beyond_ascii_; }
  const std::vector<std::u32string>& all() const { return all_; }

 private:
  std::vector<std::u32string> all_;
  ByteSet firsts_;             // first characters of the markers;
  bool beyond_ascii_ = false;  // of those beyond ASCII, only whether there are any
};

}  // namespace narrows
