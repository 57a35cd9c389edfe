#pragma once

#include <nanobind/nanobind.h>

// Behind all others: it adds to what they have bound.
void bind_wrong_types(nanobind::module_& m);
