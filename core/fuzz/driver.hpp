// Runs a target on random bytes where libFuzzer does not: `target [runs] [first seed]`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace narrows::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// Random bytes as a source of small numbers; zeros when they are used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data, size) {}
  bool empty() const { return at_ >= data_.size(); }
  std::uint8_t byte() { return empty() ? 0 : data_[at_++]; }
  std::uint32_t below(std::uint32_t n) { return byte() % n; }

 private:
  std::span<const std::uint8_t> data_;
  std::size_t at_ = 0;
};

inline int drive(int argc, char** argv, const char* done) {
  const unsigned long runs = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const unsigned long first = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  for (unsigned long seed = first; seed < first + runs; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> data(200 + random() % 500);
    for (std::uint8_t& b : data) b = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%lu %s\n", runs, done);
  return 0;
}

}  // namespace narrows::fuzz
