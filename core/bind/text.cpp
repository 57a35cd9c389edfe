#include "bind/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace nb = nanobind;

using narrows::Characters;

namespace {

// Longer strings that are not ASCII would be encoded as a whole to be told from ASCII.
constexpr std::size_t kShort = 64;

char32_t character_of(const void* text, std::size_t at) {
  return PyUnicode_ReadChar(const_cast<PyObject*>(static_cast<const PyObject*>(text)), static_cast<Py_ssize_t>(at));
}

bool says_it_is_ascii(nb::handle text) {
  static PyObject* const name = PyUnicode_InternFromString("isascii");  // never given back
  PyObject* const self = text.ptr();
  const nb::object said = nb::steal(PyObject_VectorcallMethod(name, &self, 1, nullptr));
  if (!said.is_valid()) nb::raise_python_error();
  return said.is(Py_True);
}

}  // namespace

Characters characters(nb::handle text) {
  const Py_ssize_t size = PyUnicode_GetLength(text.ptr());
  if (size < 0) nb::raise_python_error();
  const auto count = static_cast<std::size_t>(size);
  if (count <= kShort || says_it_is_ascii(text)) {
    Py_ssize_t width = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &width);
    if (utf8 == nullptr)
      PyErr_Clear();  // half a surrogate pair
    else if (width == size)
      return Characters(std::span(reinterpret_cast<const std::uint8_t*>(utf8), count));
  }
  return Characters(text.ptr(), &character_of, count);
}

std::u32string copied(nb::handle text) {
  std::u32string copy;
  const Characters source = characters(text);
  copy.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) copy.push_back(source[i]);
  return copy;
}

nb::object to_str(std::u32string_view text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  PyObject* made = nullptr;
  if (std::ranges::all_of(text, [](char32_t c) { return c < 0x80; })) {
    std::array<char, kShort> few;
    std::string many;
    char* narrow = few.data();
    if (text.size() > few.size()) {
      many.resize(text.size());
      narrow = many.data();
    }
    std::ranges::transform(text, narrow, [](char32_t c) { return static_cast<char>(c); });
    made = PyUnicode_FromStringAndSize(narrow, size);
  } else {
    int order = std::endian::native == std::endian::little ? -1 : 1;
    made = PyUnicode_DecodeUTF32(reinterpret_cast<const char*>(text.data()), 4 * size, "surrogatepass", &order);
  }
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}
