#include "fuzz/driver.hpp"

extern "C" void __sanitizer_set_death_callback(void (*callback)());  // every sanitizer has it

void narrows::fuzz::on_report(void (*callback)()) { __sanitizer_set_death_callback(callback); }
