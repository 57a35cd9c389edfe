// Runs a target on random bytes without libFuzzer: `target [runs | seconds, as in 60s] [first seed] [a file for the
// target]`. A failure prints its seed before the process ends: `target 1 SEED` runs that one alone.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Every sanitizer has it; without one it is null.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

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

inline unsigned long current_seed = 0;

inline void say_seed() { std::fprintf(stderr, "seed %lu\n", current_seed); }

inline int drive(int argc, char** argv, const char* done) {
  const std::string_view length = argc > 1 ? argv[1] : "1000";
  const bool timed = length.ends_with('s');
  const unsigned long wanted = std::strtoul(length.data(), nullptr, 10);
  const unsigned long first = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_seed);
  std::signal(SIGABRT, [](int) { say_seed(); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted);
  unsigned long runs = 0;
  for (; timed ? std::chrono::steady_clock::now() < end : runs < wanted; ++runs) {
    current_seed = first + runs;
    std::mt19937_64 random(current_seed);
    std::vector<std::uint8_t> data(200 + random() % 500);
    for (std::uint8_t& b : data) b = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%lu %s\n", runs, done);
  return 0;
}

}  // namespace narrows::fuzz
