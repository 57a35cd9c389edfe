// Adds the classes of core/stream to the module.
#pragma once

#include <nanobind/nanobind.h>

void bind_stream(nanobind::module_& m);
