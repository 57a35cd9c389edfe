// The parts of a text, as its sorted suffixes. What has been read of a part is a *place*: a range of the suffixes, those
// that begin with it, and how long it is. Nothing is stored for each part or for each place.
//
//   characters  a part begins and ends between any two characters of UTF-8.
//   pieces      the text is cut. It has the symbol kCut where a part may end and another one begin, and kEnd where one
//               may only end; a part may also begin with the text. These symbols are not read.
//
// In a cut text, the cuts are symbols of the suffixes like its bytes. So two places of the same bytes that are cut
// otherwise are two ranges, and whether a part may end is known from the last suffix of a range: the symbols of cuts are
// the greatest. Reading a byte may lead to three places. Where cuts follow from the bytes, as between words, it is one.
//
// Immutable. Cost: linear time, some 120 ns a byte; 5 bytes of memory for each place where a part may begin, 4 for each
// piece, and the text. A step is a few binary searches.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "automata/byteset.hpp"

namespace narrows {

enum class Unit : std::uint8_t { pieces, characters };

class Suffixes {
 public:
  static constexpr std::uint8_t kEnd = 0xfe, kCut = 0xff;
  // The most bytes that a text of this size takes, and what it takes besides while it is sorted.
  static std::uint64_t most_bytes(std::uint64_t size) { return 10 * size + 512; }

  // Of the text only what belongs to some part is kept. It has fewer than 2^31 bytes.
  Suffixes(std::span<const std::uint8_t> text, Unit unit);

  // Suffixes [first, last), of which `depth` symbols have been read. Or, with no `last`, the suffix that begins at
  // `first`: so that what follows a part that stands in the text once is the same place however long the part is.
  struct Place {
    std::uint32_t first, last, depth;
  };
  struct Places {
    std::array<Place, 3> all;
    std::uint32_t count = 0;
    void add(const Place& place) { all[count++] = place; }
    std::span<const Place> list() const { return std::span(all).first(count); }
  };
  Place start() const { return {0, count(), 0}; }
  bool is_empty() const { return begins_.empty(); }  // no part has a byte

  bool may_end(const Place& place) const;
  bool goes_on(const Place& place) const;  // some byte may follow
  Places after(const Place& place, std::uint8_t byte) const;
  // Symbols that this compares, at most: two searches for each symbol that is read, and there may be five.
  std::uint32_t comparisons(const Place& place) const {
    return (unit_ == Unit::pieces ? 10 : 2) * (place.last == 0 ? 1 : std::bit_width(place.last - place.first));
  }
  ByteSet following(const Place& place) const;
  // Bytes of the text that end a part in a short way: the shortest of the ways of some suffixes of the place.
  std::span<const std::uint8_t> way_to_end(const Place& place) const;
  // At most so many bytes end a part, wherever it stands.
  std::uint32_t longest_way() const { return longest_way_; }

  // For those that read on along all suffixes of a place.
  std::span<const std::uint8_t> text() const { return text_; }
  std::uint32_t begin(std::uint32_t suffix) const { return begins_[suffix]; }
  bool is_mark(std::uint8_t symbol) const { return unit_ == Unit::pieces && symbol >= kEnd; }
  // Whether a part that has been read up to here may end before this symbol.
  bool ends_before(std::uint8_t symbol) const {
    return unit_ == Unit::pieces ? symbol >= kEnd : (symbol & 0xc0) != 0x80;
  }
  // The first suffix of a place after one of its suffixes with which it has fewer than `length` symbols in common, and
  // how many these are; the place's end if there is none.
  std::pair<std::uint32_t, std::uint32_t> next_apart(const Place& place, std::uint32_t suffix,
                                                     std::uint32_t length) const;

  std::uint64_t hash() const { return hash_; }
  bool operator==(const Suffixes& other) const { return unit_ == other.unit_ && text_ == other.text_; }
  std::size_t bytes() const;

 private:
  static constexpr std::uint32_t kMostCommon = 255;
  static constexpr std::size_t kFew = 64, kMany = 64 * 64;

  void keep_text(std::span<const std::uint8_t> text);
  void find_common();
  std::uint32_t common_of(std::uint32_t one, std::uint32_t other, std::uint32_t most) const;
  std::uint32_t count() const { return static_cast<std::uint32_t>(begins_.size()); }
  int symbol(std::uint32_t suffix, std::uint32_t depth) const;
  std::uint32_t bound(const Place& place, std::uint32_t from, int value) const;
  bool step(Place& place, std::uint8_t symbol) const;
  template <class Visit>
  void for_each_symbol(const Place& place, Visit&& visit) const;

  Unit unit_;
  std::vector<std::uint8_t> text_;
  std::vector<std::uint32_t> begins_;     // of the suffixes that may begin a part, in their order
  std::vector<std::uint8_t> common_;      // with the suffix before: symbols, at most 255
  std::vector<std::uint8_t> few_, many_;  // the least of each 64, and of each 4,096 of these
  std::vector<std::uint32_t> ends_;       // of pieces: where the marks stand
  std::uint32_t longest_way_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace narrows
