// Bytes fall into 61 groups, fine where JSON and code tell characters apart, so that a set of bytes fits a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace narrows {

using Groups = std::uint64_t;

constexpr std::array<std::uint8_t, 256> make_byte_groups() {
  std::array<std::uint8_t, 256> groups{};
  std::uint8_t next = 0;
  const auto range = [&](int from, int to) {
    for (int b = from; b <= to; ++b) groups[static_cast<std::size_t>(b)] = next;
    ++next;
  };
  range(0x00, 0x1f);
  for (int b = 0x20; b < 0x30; ++b) range(b, b);
  range('0', '9');
  for (int b = 0x3a; b < 0x41; ++b) range(b, b);
  range('A', 'F');
  range('G', 'Z');
  for (int b = 0x5b; b < 0x61; ++b) range(b, b);
  range('a', 'f');
  range('g', 'z');
  for (int b = 0x7b; b < 0x80; ++b) range(b, b);
  for (int b : {'\t', '\n', '\r'}) range(b, b);
  for (int b = 0x80; b < 0xc0; b += 0x10) range(b, b + 0x0f);
  // As UTF-8 has them: what follows E0, ED, F0 and F4 is narrower. White space and line separators, which many patterns
  // leave out, begin with C2, E1, E2 and E3.
  const std::array leads{0xc0, 0xc2, 0xc3, 0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xed, 0xee, 0xf0, 0xf1, 0xf4, 0xf5, 0x100};
  for (std::size_t i = 0; i + 1 < leads.size(); ++i) range(leads[i], leads[i + 1] - 1);
  return groups;
}

// By byte, its group.
inline constexpr std::array<std::uint8_t, 256> kByteGroups = make_byte_groups();

constexpr std::array<std::uint8_t, 64> make_group_sizes() {
  std::array<std::uint8_t, 64> sizes{};
  for (const std::uint8_t group : kByteGroups) ++sizes[group];
  return sizes;
}

// By group, how many bytes it has.
inline constexpr std::array<std::uint8_t, 64> kGroupSizes = make_group_sizes();

constexpr Groups group_of(std::uint8_t byte) { return Groups{1} << kByteGroups[byte]; }

// Letters and digits, which nearly every token has.
inline constexpr Groups kWordGroups = group_of('0') | group_of('A') | group_of('G') | group_of('a') | group_of('g');

}  // namespace narrows
