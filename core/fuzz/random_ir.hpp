// Random bytes read as a small vocabulary and a grammar: three letters, and few enough words that every kind of place
// is met.
#pragma once

#include <memory>

#include "fuzz/driver.hpp"
#include "match/matcher.hpp"

namespace narrows::fuzz {

// Room for all that these targets do, but where they take some of it away.
inline constexpr Limits kPlenty{
    .states = 1'000'000,
    .term_depth = 400,
    .step_work = 5'000'000,
    .sequence_work = 1'000'000'000,
    .live_items = 8'192,
    .object_keys = 128,
    .constraint_bytes = 64'000'000,
};

// A vocabulary before it is built, so that it can be built again.
struct Words {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> end_tokens;
  std::uint32_t size = 0;

  std::shared_ptr<Vocabulary> vocabulary(std::uint64_t max_bytes) const {
    return std::make_shared<Vocabulary>(bytes, offsets, end_tokens, size, max_bytes);
  }
};

inline constexpr std::uint64_t kPlentyOfBytes = 100'000'000;
// Small enough to start new epochs, or plenty.
inline std::uint64_t read_room(Input& in) { return in.below(4) == 0 ? 20'000 : kPlentyOfBytes; }

inline Words read_words(Input& in) {
  Words words;
  const std::uint32_t count = 4 + in.below(30);
  for (std::uint32_t t = 0; t < count; ++t) {
    const std::uint32_t length = t < 3 ? 1 : in.below(5);
    for (std::uint32_t i = 0; i < length; ++i) words.bytes.push_back("abc"[t < 3 ? t : in.below(3)]);
    words.offsets.push_back(words.bytes.size());
  }
  words.end_tokens = {count - 1};
  words.size = count + in.below(40);
  return words;
}

inline Ir read_ir(Input& in, std::uint32_t vocabulary_size) {
  Ir ir;
  ir.longest = in.below(5) == 0;
  ir.child_offsets = {0};
  ir.string_offsets = {0};
  std::vector<bool> regular;
  const std::uint32_t rules = 1 + in.below(4), nodes = rules + 1 + in.below(60);
  const auto add_string = [&](std::uint32_t length) {
    for (std::uint32_t i = 0; i < length; ++i) ir.string_bytes.push_back("abc"[in.below(3)]);
    ir.string_offsets.push_back(static_cast<std::uint32_t>(ir.string_bytes.size()));
    return static_cast<std::uint32_t>(ir.string_offsets.size() - 2);
  };
  for (std::uint32_t i = 0; i < nodes; ++i) {
    // Weighted, so that many grammars have a text at all.
    static constexpr NodeKind kKinds[] = {
        NodeKind::bytes,      NodeKind::bytes,    NodeKind::set,        NodeKind::literals, NodeKind::seq,
        NodeKind::seq,        NodeKind::alt,      NodeKind::alt,        NodeKind::alt,      NodeKind::both,
        NodeKind::complement, NodeKind::lexeme,   NodeKind::rule,       NodeKind::token,    NodeKind::repeat,
        NodeKind::repeat,     NodeKind::distinct, NodeKind::substrings, NodeKind::counted};
    NodeKind kind = kKinds[in.below(19)];
    if (i == 0) kind = NodeKind::bytes;
    // The longest match knows neither names nor tokens that have bytes.
    if (ir.longest && (kind == NodeKind::token || kind == NodeKind::distinct || kind == NodeKind::counted))
      kind = NodeKind::bytes;
    if (i + rules >= nodes) kind = NodeKind::alt;
    std::uint32_t a = 0, b = 0;
    bool is_regular = true;
    const auto child = [&](std::uint32_t c) {
      ir.children.push_back(c);
      is_regular = is_regular && regular[c];
    };
    const auto pick = [&] { return i - 1 - in.below(std::min(i, 6u)); };
    switch (kind) {
      case NodeKind::bytes:
        a = add_string(in.below(4));
        break;
      case NodeKind::set: {  // some are nearly all bytes, as in a text
        a = add_string(0);
        const std::uint8_t others = in.below(3) == 0 ? 0xff : 0;
        for (int k = 0; k < 32; ++k) ir.string_bytes.push_back(k == 12 ? (in.byte() | 2) & 0x0e : others);
        ir.string_offsets[a + 1] = static_cast<std::uint32_t>(ir.string_bytes.size());
        break;
      }
      case NodeKind::literals:
        b = in.below(8) == 0 ? 0 : 1 + in.below(3);
        a = static_cast<std::uint32_t>(ir.string_offsets.size() - 1);
        for (std::uint32_t k = 0; k < b; ++k) add_string(in.below(4));
        break;
      case NodeKind::substrings: {  // with marks, and with bytes that continue a character
        a = add_string(0);
        for (std::uint32_t k = in.below(12); k > 0; --k)
          ir.string_bytes.push_back("abcabcab\xff\xfe\xa9"[in.below(11)]);
        ir.string_offsets[a + 1] = static_cast<std::uint32_t>(ir.string_bytes.size());
        const std::uint32_t unit = in.below(2);
        b = unit + 2 * add_string(in.below(4) == 0 ? 1 + in.below(2) : 0);
        break;
      }
      case NodeKind::seq:
      case NodeKind::alt:
        for (std::uint32_t k = in.below(16) == 0 ? 0 : 1 + in.below(3); k > 0; --k) child(pick());
        break;
      case NodeKind::repeat:
        child(pick());
        a = in.below(5);
        b = in.below(3) == 0 ? 0xffffffff : a + in.below(8) * in.below(8);
        break;
      case NodeKind::both:
      case NodeKind::complement:
      case NodeKind::lexeme: {
        const bool last = kind == NodeKind::lexeme && in.below(2) == 0;  // often what has just been made
        const std::uint32_t c = last ? i - 1 : pick();
        if (!regular[c]) {
          kind = NodeKind::seq;
        }
        child(c);
        if (kind == NodeKind::both) {
          const std::uint32_t d = pick();
          if (regular[d]) child(d);
        }
        break;
      }
      case NodeKind::counted: {  // of what has just been made
        if (ir.kind(i - 1) == NodeKind::lexeme) {
          a = 1 + in.below(3);
        } else {
          kind = NodeKind::alt;
        }
        child(i - 1);
        is_regular = is_regular && kind != NodeKind::counted;
        break;
      }
      case NodeKind::distinct: {
        // Of a repetition without end, so that there is always another name.
        const auto endless = [&](std::uint32_t c) {
          if (ir.kind(c) != NodeKind::lexeme) return false;
          const std::uint32_t repeat = ir.children_of(c)[0];
          if (ir.kind(repeat) != NodeKind::repeat || ir.a[repeat] == 0 || ir.b[repeat] != 0xffffffff) return false;
          const NodeKind item = ir.kind(ir.children_of(repeat)[0]);
          return item == NodeKind::set || item == NodeKind::bytes;
        };
        std::uint32_t c = i;
        while (c > 0 && !endless(c - 1)) --c;
        if (c > 0) {
          child(c - 1);
          a = in.below(3);
        } else {
          kind = NodeKind::seq;
          child(pick());
        }
        is_regular = is_regular && kind != NodeKind::distinct;
        break;
      }
      case NodeKind::guard:  // not at random: a grammar with guards must see to it that every text has an end
        break;
      case NodeKind::rule:
        a = in.below(rules);
        is_regular = false;
        break;
      case NodeKind::token:
        a = static_cast<std::uint32_t>(ir.tokens.size());
        b = 1;
        ir.tokens.push_back(in.below(vocabulary_size));
        is_regular = false;
        break;
    }
    ir.kinds.push_back(static_cast<std::uint8_t>(kind));
    ir.a.push_back(a);
    ir.b.push_back(b);
    ir.child_offsets.push_back(static_cast<std::uint32_t>(ir.children.size()));
    regular.push_back(is_regular);
  }
  std::uint32_t start = nodes - 1;
  if (regular[start] && in.below(2) == 0) {  // a text with a length, as many strings are
    const auto add = [&](NodeKind kind, std::uint32_t a, std::uint32_t b) {
      ir.kinds.push_back(static_cast<std::uint8_t>(kind));
      ir.a.push_back(a);
      ir.b.push_back(b);
      ir.child_offsets.push_back(static_cast<std::uint32_t>(ir.children.size()));
    };
    const std::uint32_t letters = add_string(0);
    for (int k = 0; k < 32; ++k) ir.string_bytes.push_back(k == 12 ? 0x0e : 0);
    ir.string_offsets.back() = static_cast<std::uint32_t>(ir.string_bytes.size());
    add(NodeKind::set, letters, 0);
    ir.children.push_back(nodes);
    const std::uint32_t least = in.below(4);
    add(NodeKind::repeat, least, least + in.below(12));
    ir.children.insert(ir.children.end(), {start, nodes + 1});
    add(NodeKind::both, 0, 0);
    start = nodes + 2;
  }
  for (std::uint32_t r = 0; r < rules; ++r) {
    ir.rules.push_back(r == 0 ? start : nodes - 1 - r);
    ir.rule_names.push_back("r" + std::to_string(r));
  }
  return ir;
}

inline bool has(const std::vector<std::uint32_t>& row, std::uint32_t t) { return (row[t >> 5] >> (t & 31)) & 1; }

}  // namespace narrows::fuzz
