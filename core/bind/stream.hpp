// Adds what core/stream has to the module.
#pragma once

#include <nanobind/nanobind.h>

void bind_stream(nanobind::module_& m);
