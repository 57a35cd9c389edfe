// Adds the class Regular, of core/automata/regular.hpp, to the module.
#pragma once

#include <nanobind/nanobind.h>

void bind_regular(nanobind::module_& m);
