// Releases the GIL while the core computes.
//
// When the interpreter ends while a daemon thread is in the core, CPython before 3.14 ends that thread as it comes
// back: it unwinds its stack, which no destructor and no C++ frame above it survives ("terminate called"). Such a
// thread stays here instead, as CPython 3.14 keeps it, until the process is gone. It holds no lock then.
#pragma once

#include <nanobind/nanobind.h>

// Does not return.
[[noreturn]] void stay_until_the_process_ends();

// Wraps a call of Python's code: if it is unwound, the thread stops here.
struct StaysIfUnwound {
  bool is_past = false;
  ~StaysIfUnwound() {
    if (!is_past) stay_until_the_process_ends();
  }
};

class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};
