// Runs a target on random bytes without libFuzzer: `target [runs | seconds, as in 60s] [first seed] [a file for the
// target]`. A failure prints its seed before the process ends: `target 1 SEED` runs that one alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace narrows::fuzz {

// Calls the function before a sanitizer ends the process. There are two of it, with and without a sanitizer.
void on_report(void (*callback)());

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
  // What is left of the bytes, with a few others among the first of them.
  std::vector<std::uint8_t> nearly(std::mt19937_64& random) const {
    constexpr std::size_t kFirst = 150;
    std::vector<std::uint8_t> bytes(data_.begin() + static_cast<std::ptrdiff_t>(at_), data_.end());
    for (int n = 0; n < 6 && !bytes.empty(); ++n)
      bytes[random() % std::min(bytes.size(), kFirst)] = static_cast<std::uint8_t>(random());
    return bytes;
  }

 private:
  std::span<const std::uint8_t> data_;
  std::size_t at_ = 0;
};

inline std::uint64_t current_seed = 0;

inline void say_seed() { std::fprintf(stderr, "seed %s\n", std::to_string(current_seed).c_str()); }

inline int drive(int argc, char** argv, const char* done) {
  const std::string_view length = argc > 1 ? argv[1] : "1000";
  const bool timed = length.ends_with('s');
  const std::uint64_t wanted = std::strtoull(length.data(), nullptr, 10);
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  on_report(say_seed);
  std::signal(SIGABRT, [](int) { say_seed(); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted);
  std::uint64_t runs = 0;
  for (; timed ? std::chrono::steady_clock::now() < end : runs < wanted; ++runs) {
    current_seed = first + runs;
    std::mt19937_64 random(current_seed);
    std::vector<std::uint8_t> data(200 + random() % 500);
    for (std::uint8_t& b : data) b = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%s %s\n", std::to_string(runs).c_str(), done);
  return 0;
}

}  // namespace narrows::fuzz
