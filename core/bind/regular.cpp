// narrows/grammar/regular.py is the face of this class: it counts the work of a whole reading, of which each question
// here may spend what is left.
#include "bind/regular.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <limits>

#include "automata/regular.hpp"
#include "bind/gil.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using narrows::ByteSet;
using narrows::Error;
using narrows::Regular;
using narrows::TermId;
using narrows::Work;

constexpr std::uint64_t kNoMax = narrows::kNoMax;

// A Regular, and the units of work that are left to it.
struct Reading {
  Reading(std::uint64_t most_bytes, std::uint32_t most_depth) : regular(most_bytes, most_depth) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  Regular regular;
  Work work{0};
};

std::vector<TermId> terms_of(Reading& r, const std::vector<std::uint64_t>& items) {
  std::vector<TermId> terms;
  terms.reserve(items.size());
  for (std::uint64_t item : items) terms.push_back(r.regular.known(item));
  return terms;
}

TermId repeat(Reading& r, std::uint64_t item, std::uint64_t least, std::optional<std::uint64_t> most) {
  const auto bound = [](std::uint64_t count) { return static_cast<std::uint32_t>(std::min(count, kNoMax - 1)); };
  return r.regular.terms().repeat(r.regular.known(item), bound(least), most ? bound(*most) : narrows::kNoMax);
}

TermId literals(Reading& r, const std::vector<nb::bytes>& options) {
  std::vector<std::uint8_t> joined;
  std::vector<std::uint64_t> offsets{0};
  for (const nb::bytes& option : options) {
    const auto* data = static_cast<const std::uint8_t*>(option.data());
    joined.insert(joined.end(), data, data + option.size());
    offsets.push_back(joined.size());
  }
  if (joined.size() > std::numeric_limits<std::uint32_t>::max()) throw Error("invalid_input", "the texts are too long");
  return r.regular.terms().literals(joined, offsets);
}

TermId substrings(Reading& r, const nb::bytes& text, bool characters) {
  const std::span bytes(static_cast<const std::uint8_t*>(text.data()), text.size());
  return r.regular.terms().substrings(
      std::make_shared<const narrows::Suffixes>(bytes, characters ? narrows::Unit::characters : narrows::Unit::pieces));
}

TermId byte_set(Reading& r, const nb::bytes& bits) {
  if (bits.size() != 32) throw Error("invalid_input", "a set of bytes has 256 bits");
  const auto* data = static_cast<const std::uint8_t*>(bits.data());
  ByteSet bytes;
  for (unsigned b = 0; b < 256; ++b)
    if ((data[b >> 3] >> (b & 7)) & 1) bytes.add(static_cast<std::uint8_t>(b));
  return r.regular.terms().set(bytes);
}

nb::bytes bits_of(const ByteSet& bytes) {
  std::array<std::uint8_t, 32> bits{};
  bytes.for_each([&](std::uint8_t b) { bits[b >> 3] |= static_cast<std::uint8_t>(1u << (b & 7)); });
  return nb::bytes(bits.data(), bits.size());
}

// The derivative, and the bytes that have the same.
nb::tuple derivative(Reading& r, std::uint64_t term, std::uint8_t byte) {
  ByteSet same = ByteSet::all();
  const TermId after = r.regular.terms().derivative(r.regular.known(term), byte, same, r.work);
  return nb::make_tuple(after, bits_of(same));
}

// What a term is made of: its kind, and its parts.
nb::tuple shape(Reading& r, std::uint64_t given) {
  const TermId id = r.regular.known(given);
  const narrows::Terms& terms = r.regular.terms();
  const narrows::Term& t = terms[id];
  switch (t.op) {
    case narrows::Op::set:
      return nb::make_tuple("set", bits_of(terms.bytes_of(id)));
    case narrows::Op::cat:
      return nb::make_tuple("seq", t.a, t.b);
    case narrows::Op::alt:
    case narrows::Op::both: {
      nb::list parts;
      parts.append(t.op == narrows::Op::alt ? "alt" : "and");
      for (TermId part : terms.parts(id)) parts.append(part);
      return nb::tuple(parts);
    }
    case narrows::Op::complement:
      return nb::make_tuple("not", t.a);
    case narrows::Op::repeat:
      return nb::make_tuple("rep", t.a, t.b, t.c == narrows::kNoMax ? nb::none() : nb::object(nb::int_(t.c)));
    case narrows::Op::literals: {
      nb::list texts;
      for (const auto text : terms.options(id)) texts.append(nb::bytes(text.data(), text.size()));
      return nb::make_tuple("literals", nb::tuple(texts));
    }
    case narrows::Op::empty:
      return nb::make_tuple("empty");
    case narrows::Op::never:
    case narrows::Op::names:  // no caller makes one
      break;
    case narrows::Op::substrings:
      throw Error("invalid_input", "the parts of a text cannot be written otherwise");
  }
  return nb::make_tuple("never");
}

std::optional<std::vector<nb::bytes>> texts(Reading& r, std::uint64_t term, std::size_t most) {
  const TermId known = r.regular.known(term);
  std::optional<std::vector<std::string>> found;
  {
    const ReleasedGil release;
    found = r.regular.texts(known, most, r.work);
  }
  if (!found) return std::nullopt;
  std::vector<nb::bytes> out;
  for (const std::string& text : *found) out.emplace_back(text.data(), text.size());
  return out;
}

}  // namespace

void bind_regular(nb::module_& m) {
  nb::class_<Reading>(m, "Regular")
      .def(nb::init<std::uint64_t, std::uint32_t>(), "most_bytes"_a, "most_depth"_a)
      .def_prop_rw(
          "left", [](const Reading& r) { return r.work.left; },
          [](Reading& r, std::uint64_t units) { r.work.left = units; })
      .def("byte_set", &byte_set, "bits"_a)
      .def("literals", &literals, "options"_a)
      .def("substrings", &substrings, "text"_a, "characters"_a)
      .def(
          "seq",
          [](Reading& r, std::uint64_t first, std::uint64_t rest) {
            return r.regular.terms().cat(r.regular.known(first), r.regular.known(rest));
          },
          "first"_a, "rest"_a)
      .def(
          "alt",
          [](Reading& r, const std::vector<std::uint64_t>& items) { return r.regular.terms().alt(terms_of(r, items)); },
          "items"_a)
      .def(
          "both",
          [](Reading& r, const std::vector<std::uint64_t>& items) {
            return r.regular.terms().both(terms_of(r, items));
          },
          "items"_a)
      .def(
          "complement",
          [](Reading& r, std::uint64_t item) { return r.regular.terms().complement(r.regular.known(item)); }, "item"_a)
      .def("repeat", &repeat, "item"_a, "least"_a, "most"_a.none())
      .def(
          "matches",
          [](Reading& r, std::uint64_t term, const nb::bytes& text) {
            const auto* data = static_cast<const std::uint8_t*>(text.data());
            return r.regular.matches(r.regular.known(term), std::span(data, text.size()), r.work);
          },
          "term"_a, "text"_a)
      .def(
          "is_never",
          [](Reading& r, std::uint64_t term) {
            const TermId known = r.regular.known(term);
            const ReleasedGil release;
            return r.regular.is_never(known, r.work);
          },
          "term"_a)
      .def("texts", &texts, "term"_a, "most"_a)
      .def("derivative", &derivative, "term"_a, "byte"_a)
      .def("shape", &shape, "term"_a)
      .def_prop_ro("bytes", [](const Reading& r) { return r.regular.bytes(); });
}
