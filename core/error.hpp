// The one exception of the core, the limits that it enforces, and the counter of work.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace narrows {

// `code` is stable and becomes NarrowsError.code; `limit` names the field of Limits that was reached, if one was.
struct Error : std::runtime_error {
  Error(std::string code_, const std::string& message, std::string limit_ = {})
      : std::runtime_error(message), code(std::move(code_)), limit(std::move(limit_)) {}
  std::string code;
  std::string limit;
};

[[noreturn]] inline void limit_reached(const char* limit, const std::string& message) {
  throw Error("limit_reached", message, limit);
}

// The fields of narrows.limits.Limits that the core enforces. That class documents their meaning and defaults; code
// that creates a value here sets every field.
struct Limits {
  std::uint64_t states;
  std::uint64_t term_depth;
  std::uint64_t step_work;
  std::uint64_t sequence_work;
  std::uint64_t live_items;
  std::uint64_t object_keys;
  std::uint64_t constraint_bytes;
};

// Thrown if a call takes too much work in the shared home. It is then repeated in a home of its own (match/home.hpp).
struct Crowded {};

// Units of work that one operation may still spend, and the limit that is reached if none are left.
struct Work {
  enum class Bound : std::uint8_t { step, sequence, shared };

  std::uint64_t left;
  Bound bound = Bound::step;

  void spend(std::uint64_t units = 1) {
    if (units > left) stop();
    left -= units;
  }
  // More than so many units are left. Where others wait, what has fewer is done again elsewhere.
  bool exceeds(std::uint64_t units) {
    if (left <= units && bound == Bound::shared) stop();
    return left > units;
  }
  // Work that another limit bounds: it counts only where others wait for it.
  void share(std::uint64_t units) {
    if (bound == Bound::shared) spend(units);
  }

 private:
  [[noreturn]] void stop() {
    left = 0;
    if (bound == Bound::shared) throw Crowded();
    if (bound == Bound::sequence) limit_reached("sequence_work", "one sequence took more work than the limit allows");
    limit_reached("step_work", "one step took more work than the limit allows");
  }
};

}  // namespace narrows
