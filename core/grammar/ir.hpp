// The intermediate form as flat arrays, and the check of all indices in it.
//
// Python lowers narrows.grammar.ir to this form; the core checks all of it. Nodes are in post-order: the children of a
// node have smaller numbers, so every pass over them is a loop.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "automata/suffixes.hpp"

namespace narrows {

enum class NodeKind : std::uint8_t {
  bytes,
  set,
  literals,
  substrings,
  seq,
  alt,
  repeat,
  both,
  complement,
  lexeme,
  rule,
  token,
  distinct,
  guard,
  counted
};

// The most tokens that a `counted` node may allow.
inline constexpr std::uint32_t kMostCounted = 0x3fffffff;

struct Ir {
  std::vector<std::uint8_t> kinds;           // NodeKind of each node
  std::vector<std::uint32_t> a, b;           // see below
  std::vector<std::uint32_t> child_offsets;  // node i has children[child_offsets[i] .. child_offsets[i+1])
  std::vector<std::uint32_t> children;
  std::vector<std::uint32_t> string_offsets;  // string j is string_bytes[string_offsets[j] .. string_offsets[j+1])
  std::vector<std::uint8_t> string_bytes;
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint32_t> rules;  // the node of each rule
  std::vector<std::string> rule_names;
  std::uint32_t start = 0;                             // a rule
  bool longest = false;                                // terminals are cut by the longest match (match/stacks.hpp)
  std::vector<std::shared_ptr<const Suffixes>> texts;  // of the nodes `substrings`, in order: from sort_texts()
  std::size_t text_bytes = 0;                          // of all these
  // bytes: a = string. set: a = string of 32 bytes, bit b&7 of byte b>>3. literals: strings [a, a+b). substrings: a = string,
  // b = Unit + 2 * string: what has been read of the part; an empty string where nothing has. repeat: a = min,
  // b = max or 0xffffffff. rule: a = rule. token: tokens [a, a+b). distinct: a = NameSpelling, b = 0, or 1 + the string
  // that is the only name it reads. guard: names [a, a + b / 4) as strings; b & 1: they are strings, and no bytes; b & 2:
  // passes unless all of them have been read. counted: a = most tokens. The others use their children alone.

  std::size_t size() const { return kinds.size(); }
  NodeKind kind(std::uint32_t node) const { return static_cast<NodeKind>(kinds[node]); }
  std::span<const std::uint32_t> children_of(std::uint32_t node) const {
    return std::span(children).subspan(child_offsets[node], child_offsets[node + 1] - child_offsets[node]);
  }
  std::span<const std::uint8_t> string(std::uint32_t j) const {
    return std::span(string_bytes).subspan(string_offsets[j], string_offsets[j + 1] - string_offsets[j]);
  }
  std::size_t bytes() const;

  // Throws Error("ir_invalid") at the first violation. Token ids must be below `vocabulary_size`.
  void check(std::uint32_t vocabulary_size) const;
  // Sorts the suffixes of the texts, after the check. It needs no lock, and is done once: lexicons share what is made.
  // Throws where that would take more than `most_bytes` of memory (limits.constraint_bytes).
  void sort_texts(std::uint64_t most_bytes);
};

}  // namespace narrows
