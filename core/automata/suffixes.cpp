#include "automata/suffixes.hpp"

#include <algorithm>
#include <cstring>

#include "automata/suffix_order.hpp"
#include "error.hpp"
#include "intern.hpp"

namespace narrows {

Suffixes::Suffixes(std::span<const std::uint8_t> text, Unit unit) : unit_(unit) {
  if (text.size() >> 31 != 0) throw Error("invalid_input", "a text has 2 GB and more");
  keep_text(text);
  begins_ = suffix_order(text_);
  std::erase_if(begins_, [&](std::uint32_t at) {
    return unit_ == Unit::pieces ? is_mark(text_[at]) || (at > 0 && text_[at - 1] != kCut) : !ends_before(text_[at]);
  });
  begins_.shrink_to_fit();
  find_common();
  hash_ = mix(mix(13, static_cast<std::uint64_t>(unit_)), text_.size());
  for (std::uint8_t b : text_) hash_ = mix(hash_, b);
}

// Of marks one after the other the greatest is left. None stands at the beginning, and one at the end.
void Suffixes::keep_text(std::span<const std::uint8_t> text) {
  std::uint32_t way = 0;
  if (unit_ == Unit::characters) {
    text_.assign(text.begin(), text.end());
    for (std::uint8_t b : text_) longest_way_ = std::max(longest_way_, way = ends_before(b) ? 0 : way + 1);
    return;
  }
  text_.reserve(text.size());
  for (std::uint8_t symbol : text) {
    if (!is_mark(symbol)) {
      text_.push_back(symbol);
      longest_way_ = std::max(longest_way_, ++way);
      continue;
    }
    way = 0;
    if (text_.empty()) continue;
    if (is_mark(text_.back())) {
      text_.back() = std::max(text_.back(), symbol);
    } else {
      ends_.push_back(static_cast<std::uint32_t>(text_.size()));
      text_.push_back(symbol);
    }
  }
  while (!text_.empty() && !is_mark(text_.back())) text_.pop_back();
  text_.shrink_to_fit();
  ends_.shrink_to_fit();
}

// Neighbours are compared: that takes at most 255 symbols for each of them, and mostly a few words.
void Suffixes::find_common() {
  common_.resize(begins_.size());
  for (std::uint32_t i = 1; i < count(); ++i)
    common_[i] = static_cast<std::uint8_t>(common_of(begins_[i - 1], begins_[i], kMostCommon));
  const auto least = [](const std::vector<std::uint8_t>& of) {
    std::vector<std::uint8_t> made;
    for (std::size_t i = 0; i < of.size(); i += kFew)
      made.push_back(*std::min_element(of.begin() + static_cast<std::ptrdiff_t>(i),
                                       of.begin() + static_cast<std::ptrdiff_t>(std::min(of.size(), i + kFew))));
    made.shrink_to_fit();
    return made;
  };
  few_ = least(common_);
  many_ = least(few_);
}

// Symbols that two suffixes have in common, up to `most`.
std::uint32_t Suffixes::common_of(std::uint32_t one, std::uint32_t other, std::uint32_t most) const {
  const auto room = static_cast<std::uint32_t>(text_.size()) - std::max(one, other);
  const std::uint32_t until = std::min(most, room);
  std::uint32_t found = 0;
  for (; found + 8 <= until; found += 8) {
    if (std::memcmp(&text_[one + found], &text_[other + found], 8) != 0) break;
  }
  while (found < until && text_[one + found] == text_[other + found]) ++found;
  return found;
}

std::pair<std::uint32_t, std::uint32_t> Suffixes::next_apart(const Place& place, std::uint32_t suffix,
                                                             std::uint32_t length) const {
  std::uint32_t next = suffix + 1;
  if (length <= kMostCommon) {
    while (next < place.last) {
      if (next % kMany == 0 && many_[next / kMany] >= length) {
        next += kMany;
      } else if (next % kFew == 0 && few_[next / kFew] >= length) {
        next += kFew;
      } else if (common_[next] >= length) {
        ++next;
      } else {
        return {next, common_[next]};
      }
    }
    return {place.last, 0};
  }
  // Deep in the text: the suffixes that have so much in common stand together.
  const std::uint32_t known = place.depth;
  const auto common = [&](std::uint32_t one, std::uint32_t other) {
    return known + common_of(begins_[one] + known, begins_[other] + known, length - known);
  };
  for (std::uint32_t until = place.last; next < until;) {
    const std::uint32_t middle = next + (until - next) / 2;
    if (common(suffix, middle) == length) {
      next = middle + 1;
    } else {
      until = middle;
    }
  }
  return {next, next < place.last ? common(suffix, next) : 0};
}

// Of a suffix that has ended, less than any other.
int Suffixes::symbol(std::uint32_t suffix, std::uint32_t depth) const {
  const std::size_t at = std::size_t{begins_[suffix]} + depth;
  return at < text_.size() ? text_[at] : -1;
}

// The first suffix of [from, place.last) whose next symbol is at least `value`.
std::uint32_t Suffixes::bound(const Place& place, std::uint32_t from, int value) const {
  std::uint32_t low = from, high = place.last;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (symbol(middle, place.depth) < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Reads one symbol. False where the place has none such.
bool Suffixes::step(Place& place, std::uint8_t symbol) const {
  if (place.last == 0) {
    if (place.first == text_.size() || text_[place.first] != symbol) return false;
    ++place.first;
    return true;
  }
  place.first = bound(place, place.first, symbol);
  place.last = bound(place, place.first, symbol + 1);
  if (place.first == place.last) return false;
  ++place.depth;
  if (place.last - place.first == 1) place = {begins_[place.first] + place.depth, 0, 0};
  return true;
}

// Calls `visit` with each symbol that follows.
template <class Visit>
void Suffixes::for_each_symbol(const Place& place, Visit&& visit) const {
  if (place.last == 0) {
    if (place.first < text_.size()) visit(text_[place.first]);
    return;
  }
  for (std::uint32_t i = bound(place, place.first, 0); i < place.last;) {
    const int found = symbol(i, place.depth);
    visit(static_cast<std::uint8_t>(found));
    i = bound(place, i, found + 1);
  }
}

bool Suffixes::may_end(const Place& place) const {
  if (place.last == 0) return place.first == text_.size() || ends_before(text_[place.first]);
  if (place.depth == 0) return true;
  // The least and the greatest symbol that follow: what ends before the text does not continue a character.
  for (std::uint32_t suffix : {place.first, place.last - 1})
    if (const int next = symbol(suffix, place.depth); next < 0 || ends_before(static_cast<std::uint8_t>(next)))
      return true;
  return false;
}

bool Suffixes::goes_on(const Place& place) const {
  if (place.last != 0) return true;  // suffixes that are not the same
  return place.first + (unit_ == Unit::pieces ? 1 : 0) < text_.size();
}

Suffixes::Places Suffixes::after(const Place& place, std::uint8_t byte) const {
  Places found;
  if (is_mark(byte)) return found;
  if (Place next = place; step(next, byte)) found.add(next);
  if (unit_ == Unit::pieces)
    for (std::uint8_t mark : {kEnd, kCut})
      if (Place next = place; step(next, mark) && step(next, byte)) found.add(next);
  return found;
}

ByteSet Suffixes::following(const Place& place) const {
  ByteSet found;
  for_each_symbol(place, [&](std::uint8_t symbol) {
    Place next = place;
    if (!is_mark(symbol)) {
      found.add(symbol);
    } else if (step(next, symbol)) {
      for_each_symbol(next, [&](std::uint8_t b) { found.add(b); });
    }
  });
  return found;
}

std::span<const std::uint8_t> Suffixes::way_to_end(const Place& place) const {
  constexpr std::uint32_t kMostWays = 16;
  const auto way_from = [&](std::uint32_t from) {
    std::uint32_t to = from;
    if (unit_ == Unit::pieces) {
      to = *std::ranges::lower_bound(ends_, from);
    } else {
      while (to < text_.size() && !ends_before(text_[to])) ++to;
    }
    return text().subspan(from, to - from);
  };
  if (may_end(place)) return {};
  if (place.last == 0) return way_from(place.first);
  const std::uint32_t all = place.last - place.first, few = std::min(all, kMostWays);
  std::span<const std::uint8_t> best;
  for (std::uint32_t i = 0; i < few; ++i) {
    const auto suffix = place.first + static_cast<std::uint32_t>(std::uint64_t{all} * i / few);
    const auto way = way_from(begins_[suffix] + place.depth);
    if (best.data() == nullptr || way.size() < best.size()) best = way;
  }
  return best;
}

std::size_t Suffixes::bytes() const {
  return sizeof(Suffixes) + held(text_) + held(begins_) + held(common_) + held(few_) + held(many_) + held(ends_) +
         6 * kHeapBlock;
}

}  // namespace narrows
