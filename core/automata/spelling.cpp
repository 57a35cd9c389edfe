// Names in all their spellings, as one term. A spelling is written out only when a text reaches its backslash.
#include "automata/spelling.hpp"

#include <algorithm>

#include "automata/terms.hpp"

namespace narrows {

TermId Terms::names(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets,
                    NameSpelling spelling) {
  const std::uint32_t table = table_of(bytes, offsets, spelling);
  const auto count = static_cast<std::uint32_t>(tables_[table].offsets.size() - 1);
  return count == 0 ? kNever : intern({.op = Op::names, .a = table, .b = 0, .c = count, .d = 0});
}

TermId Terms::names_step(const Term& term, std::uint8_t byte, ByteSet& same, Work& work) {
  const std::uint32_t table = term.a, depth = term.d;
  const NameSpelling spelling = tables_[table].spelling;
  ByteSet special;
  special.add(quote(spelling));
  special.add('\\');
  if (!special.has(byte)) {
    same &= ~special;
    return literals_step(term, byte, same);
  }
  ByteSet only;
  only.add(byte);
  same &= only;
  const auto text = [&](std::uint32_t i) { return tables_[table].at(i).subspan(depth); };
  const bool ends = text(term.b).empty();
  if (byte == quote(spelling)) return ends ? kEmpty : kNever;
  std::vector<TermId> readings;  // one for each next character
  for (std::uint32_t low = term.b + (ends ? 1 : 0); low < term.c;) {
    const std::size_t length = std::min(utf8_length(text(low)[0]), text(low).size());
    const std::vector<std::uint8_t> character(text(low).begin(),
                                              text(low).begin() + static_cast<std::ptrdiff_t>(length));
    std::uint32_t high = low + 1;
    while (high < term.c && std::ranges::equal(text(high).first(std::min(length, text(high).size())), character))
      ++high;
    work.spend(4 + high - low);
    const bool is_begun = (character[0] & 0xc0) == 0x80;
    if (const TermId rest = is_begun ? kNever : escaped(character, spelling); rest != kNever)
      readings.push_back(cat(
          rest,
          intern({.op = Op::names, .a = table, .b = low, .c = high, .d = depth + static_cast<std::uint32_t>(length)})));
    low = high;
  }
  return alt(readings);
}

// What names_step can take, without writing out what follows a backslash.
ByteSet Terms::names_first(const Term& term, Work& work) const {
  const Table& table = tables_[term.a];
  const std::uint8_t mark = quote(table.spelling);
  ByteSet found;
  std::uint32_t i = term.b;
  if (table.at(i).size() == term.d) {
    found.add(mark);
    ++i;
  }
  while (i < term.c) {
    const std::uint8_t byte = table.at(i)[term.d];
    const bool is_begun = (byte & 0xc0) == 0x80;  // a character
    const auto letters = escapes(table.spelling);
    const bool has_letter = std::ranges::find(letters, byte, &Escape::character) != letters.end();
    if (byte != mark && byte != '\\') found.add(byte);
    if (!is_begun && (table.spelling == NameSpelling::json || has_letter)) found.add('\\');
    i = bound(term, i, byte + 1);
    work.spend(2);
  }
  return found;
}

// What follows the backslash: the letter, and in JSON the character's number in digits of either case.
TermId Terms::escaped(std::span<const std::uint8_t> utf8, NameSpelling spelling) {
  std::uint32_t point = utf8[0];
  if (utf8.size() > 1) point &= 0x3fu >> (utf8.size() - 1);
  for (std::uint8_t b : utf8.subspan(1)) point = (point << 6) | (b & 0x3f);
  if (const TermId known = escaped_.find(point, static_cast<std::uint32_t>(spelling)); known != kNone) return known;
  const auto byte = [&](std::uint8_t b) {
    ByteSet one;
    one.add(b);
    return one;
  };
  TermId made = kNever;
  const auto found = std::ranges::find(escapes(spelling), utf8[0], &Escape::character);
  if (found != escapes(spelling).end()) made = set(byte(found->letter));
  if (spelling == NameSpelling::json) {
    std::vector<std::uint32_t> units{point};
    if (point >= 0x10000) units = {0xd800 + ((point - 0x10000) >> 10), 0xdc00 + ((point - 0x10000) & 0x3ff)};
    TermId number = kEmpty;
    while (!units.empty()) {
      for (int shift = 0; shift < 16; shift += 4) {
        const auto digit = static_cast<std::uint8_t>("0123456789abcdef"[(units.back() >> shift) & 15]);
        ByteSet either = byte(digit);
        if (digit > '9') either.add(static_cast<std::uint8_t>(digit & ~0x20));
        number = cat(set(either), number);
      }
      number = cat(set(byte('u')), number);
      units.pop_back();
      if (!units.empty()) number = cat(set(byte('\\')), number);
    }
    made = alt(std::vector<TermId>{made, number});
  }
  escaped_.insert(point, static_cast<std::uint32_t>(spelling), made);
  return made;
}

}  // namespace narrows
