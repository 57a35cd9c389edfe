// Python's strings: their characters as the core reads them, and new ones.
//
// Written with the functions of the limited API alone, so that one build serves all later Pythons. A string of ASCII is
// read where it lies. Of others each character is asked for, which takes some 3 ns.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "stream/characters.hpp"

// A view: the string must live on. `text` must be a str.
narrows::Characters characters(nanobind::handle text);
std::u32string copied(nanobind::handle text);
nanobind::object to_str(std::u32string_view text);
