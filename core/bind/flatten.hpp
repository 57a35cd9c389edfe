#pragma once

#include <nanobind/nanobind.h>

void bind_flatten(nanobind::module_& m);
