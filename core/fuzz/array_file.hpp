// A file with the arrays that Python hands to the core: a vocabulary, and grammars. sanitize.py and bench/instructions write it.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/driver.hpp"
#include "grammar/ir.hpp"

namespace narrows::fuzz {

// Each array stands behind its length: little-endian, as numpy writes them.
class ArrayFile {
 public:
  explicit ArrayFile(const std::string& path) : in_(path, std::ios::binary) {
    require(in_.good(), "the file is there");
  }

  template <class T>
  std::vector<T> array() {
    std::uint64_t count = 0;
    in_.read(reinterpret_cast<char*>(&count), sizeof count);
    std::vector<T> out(count);
    in_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(count * sizeof(T)));
    require(in_.good(), "the file is whole");
    return out;
  }

  Ir ir() {
    Ir ir;
    ir.kinds = array<std::uint8_t>();
    for (auto* part : {&ir.a, &ir.b, &ir.child_offsets, &ir.children, &ir.string_offsets})
      *part = array<std::uint32_t>();
    ir.string_bytes = array<std::uint8_t>();
    for (auto* part : {&ir.tokens, &ir.rules}) *part = array<std::uint32_t>();
    ir.start = array<std::uint32_t>()[0];
    ir.rule_names.resize(ir.rules.size(), "rule");
    return ir;
  }

 private:
  std::ifstream in_;
};

}  // namespace narrows::fuzz
