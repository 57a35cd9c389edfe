#include "bind/gil.hpp"

#include <chrono>
#include <thread>

void stay_until_the_process_ends() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

ReleasedGil::~ReleasedGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // the unwinding of a thread that ends
    stay_until_the_process_ends();
  }
}
