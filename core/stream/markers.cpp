#include "stream/markers.hpp"

namespace narrows {

Markers::Markers(std::vector<std::u32string> all) : all_(std::move(all)) {
  for (const std::u32string& marker : all_) {
    if (marker.front() < 0x80)
      firsts_.add(static_cast<std::uint8_t>(marker.front()));
    else
      beyond_ascii_ = true;
  }
}

int Markers::match(const Characters& text, std::size_t at, bool final) const {
  const std::size_t left = text.size() - at;
  for (std::size_t which = 0; which < all_.size(); ++which) {
    const std::u32string& marker = all_[which];
    std::size_t same = 0;
    while (same < left && same < marker.size() && text[at + same] == marker[same]) ++same;
    if (same == marker.size()) return static_cast<int>(which);
    if (same == left && !final) return kBegun;
  }
  return kNone;
}

Markers::Found Markers::search(const Characters& text, std::size_t pos, bool final) const {
  for (; pos < text.size(); ++pos) {
    if (!may_begin_with(text[pos])) continue;
    const int which = match(text, pos, final);
    if (which != kNone) return {pos, which == kBegun ? kNone : which};
  }
  return {pos, kNone};
}

}  // namespace narrows
