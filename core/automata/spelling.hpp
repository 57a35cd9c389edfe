// How a name is spelled: as it is; as a JSON string with any escapes; or in single quotes, as in Python (json_text.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace narrows {

enum class NameSpelling : std::uint8_t { bytes, json, single };
inline constexpr std::uint32_t kNameSpellings = 3;

struct Escape {
  std::uint8_t character, letter;
};
inline constexpr Escape kJsonEscapes[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'},
                                          {12, 'f'},  {10, 'n'},    {13, 'r'},  {9, 't'}};
inline constexpr Escape kSingleEscapes[] = {{'\'', '\''}, {'\\', '\\'}, {10, 'n'}, {13, 'r'}, {9, 't'}};

inline std::span<const Escape> escapes(NameSpelling spelling) {
  if (spelling == NameSpelling::json) return kJsonEscapes;
  return kSingleEscapes;
}

// The text is a string's, whose spelling does not count.
inline bool is_string(NameSpelling spelling) { return spelling != NameSpelling::bytes; }

inline std::uint8_t quote(NameSpelling spelling) { return spelling == NameSpelling::json ? '"' : '\''; }

inline std::size_t utf8_length(std::uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

}  // namespace narrows
