#include "automata/suffix_order.hpp"

#include <algorithm>

#include "intern.hpp"

namespace narrows {
namespace {

// Sorts the suffixes of a text whose symbols are below `symbols`. A suffix is *small* if it is less than the one that
// begins one symbol later. A small one after one that is not small is a *valley*. From the order of the valleys follows
// that of all suffixes. The order of the valleys is that of a text with one symbol for each of them: at most half as
// long, so the calls nest no deeper than a number has bits.
template <class Symbol>
class Sorting {
 public:
  Sorting(std::span<const Symbol> text, std::uint32_t symbols, std::vector<std::uint32_t>& order)
      : text_(text), order_(order), is_small_(text.size()), ends_(symbols), cursor_(symbols) {
    const auto n = static_cast<std::uint32_t>(text.size());
    order_.resize(n);
    if (n == 0) return;
    for (Symbol symbol : text) ++ends_[symbol];
    for (std::uint32_t total = 0; std::uint32_t& end : ends_) end = total += end;
    for (std::uint32_t i = n - 1; i-- > 0;)
      is_small_[i] = text[i] < text[i + 1] || (text[i] == text[i + 1] && is_small_[i + 1]);
    for (std::uint32_t i = 1; i < n; ++i)
      if (is_valley(i)) valleys_.push_back(i);
    if (valleys_.size() > 1) sort_valleys();
    induce();
  }

 private:
  bool is_valley(std::uint32_t i) const { return is_small_[i] && i > 0 && !is_small_[i - 1]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }

  // All suffixes, from the valleys in the order in which they stand. Where these stand in the order of their pieces
  // alone, each up to the next valley, all suffixes are sorted by their piece alone.
  void induce() {
    std::ranges::fill(order_, kNone);
    cursor_ = ends_;
    for (std::size_t i = valleys_.size(); i-- > 0;) order_[--cursor_[text_[valleys_[i]]]] = valleys_[i];
    std::copy(ends_.begin(), ends_.end() - 1, cursor_.begin() + 1);  // where each symbol begins
    cursor_[0] = 0;
    const std::uint32_t last = size() - 1;
    order_[cursor_[text_[last]]++] = last;  // nothing is less than what follows it
    for (std::uint32_t i = 0; i <= last; ++i) {
      const std::uint32_t at = order_[i];
      if (at != kNone && at > 0 && !is_small_[at - 1]) order_[cursor_[text_[at - 1]]++] = at - 1;
    }
    cursor_ = ends_;
    for (std::uint32_t i = last + 1; i-- > 0;) {
      const std::uint32_t at = order_[i];
      if (at != kNone && at > 0 && is_small_[at - 1]) order_[--cursor_[text_[at - 1]]] = at - 1;
    }
  }

  void sort_valleys() {
    induce();
    const auto count = static_cast<std::uint32_t>(valleys_.size());
    std::vector<std::uint32_t> name(size() / 2 + 1), sorted;  // by place / 2: no two valleys are neighbours
    sorted.reserve(count);
    for (std::uint32_t at : order_)
      if (is_valley(at)) sorted.push_back(at);
    std::uint32_t names = 1;
    name[sorted[0] / 2] = 0;
    for (std::uint32_t i = 1; i < count; ++i) {
      if (!same_piece(sorted[i - 1], sorted[i])) ++names;
      name[sorted[i] / 2] = names - 1;
    }
    if (names == count) {
      valleys_.swap(sorted);
      return;
    }
    std::vector<std::uint32_t> shorter(count);
    for (std::uint32_t i = 0; i < count; ++i) shorter[i] = name[valleys_[i] / 2];
    name = {};
    Sorting<std::uint32_t>(shorter, names, sorted);
    for (std::uint32_t& at : sorted) at = valleys_[at];
    valleys_.swap(sorted);
  }

  // Whether the texts from two valleys to the next ones are equal.
  bool same_piece(std::uint32_t one, std::uint32_t other) const {
    for (std::uint32_t i = 0; one + i < size() && other + i < size(); ++i) {
      if (text_[one + i] != text_[other + i] || is_small_[one + i] != is_small_[other + i]) return false;
      if (i > 0 && is_valley(one + i)) return is_valley(other + i);
    }
    return false;  // only the last piece ends with the text
  }

  std::span<const Symbol> text_;
  std::vector<std::uint32_t>& order_;
  std::vector<bool> is_small_;          // by place
  std::vector<std::uint32_t> ends_;     // by symbol: where the suffixes end that begin with it
  std::vector<std::uint32_t> cursor_;   // by symbol
  std::vector<std::uint32_t> valleys_;  // as they stand in the text, or sorted
};

}  // namespace

std::vector<std::uint32_t> suffix_order(std::span<const std::uint8_t> text) {
  std::vector<std::uint32_t> order;
  Sorting<std::uint8_t>(text, 256, order);
  return order;
}

}  // namespace narrows
