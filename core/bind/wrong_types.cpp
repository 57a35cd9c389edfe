// Refuses arguments of a wrong type with the same error as src/narrows/arguments.py, instead of nanobind's TypeError.
//
// Each function gets a second overload that takes anything and refuses it. It is reached only if the first does not
// fit, even with conversions (numpy's integers are ints). So it adds no cost to a call with the right types. help() shows
// the same text for both, once, and that the second one does not return.
#include "bind/wrong_types.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "bind/docs.hpp"
#include "error.hpp"
#include "match/matcher.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

struct Anything {
  nb::handle given;
};

}  // namespace

template <>
struct nb::detail::type_caster<Anything> {
  NB_TYPE_CASTER(Anything, const_name("object"))
  // Only where conversions are allowed: by then the first overload has been tried in every way.
  bool from_python(handle source, std::uint32_t flags, cleanup_list*) noexcept {
    value.given = source;
    return (flags & cast_flags::convert) != 0;
  }
};

namespace {

using narrows::Error;
using narrows::Matcher;
namespace docs = narrows::docs;

constexpr const char* kToken = "a token id, which is an int";
constexpr const char* kTokens = "a list of token ids, which are ints";
constexpr const char* kCount = "an int from 0 to 2**63 - 1";
constexpr const char* kRow = "a writable numpy array of int32, C-contiguous, of one dimension";
constexpr const char* kRows = "a writable numpy array of int32, C-contiguous, of two dimensions";

// What was given: of an array, everything that a row can be wrong in.
std::string described(nb::handle given) {
  const auto kind = nb::cast<std::string>(given.type().attr("__name__"));
  if (kind != "ndarray") return kind;
  const nb::object flags = given.attr("flags");
  const auto text = [&given](const char* name) {
    const nb::object value = given.attr(name);
    return nb::cast<std::string>(nb::str(nb::handle(value)));
  };
  return std::string("a ") + (nb::cast<bool>(flags.attr("writeable")) ? "" : "read-only ") + "numpy array of " +
         text("dtype") + ", of shape " + text("shape") +
         (nb::cast<bool>(flags.attr("c_contiguous")) ? "" : ", not C-contiguous");
}

[[noreturn]] void refuse(const char* name, const char* takes, nb::handle given) {
  if (takes == kToken && PyLong_Check(given.ptr()))
    throw Error("token_out_of_range", "a token id lies far outside the vocabulary");
  const bool number = PyLong_Check(given.ptr());
  throw Error("wrong_type", std::string(name) + " must be " + takes + (number ? "" : ", not " + described(given)));
}

void guard(const nb::object& type, const char* function, const char* name, const char* takes, const char* doc) {
  const std::string shown = std::string("def ") + function + "(self, " + name + ": object) -> NoReturn";
  nb::cpp_function_def([name, takes](Matcher&, Anything value) { refuse(name, takes, value.given); }, nb::scope(type),
                       nb::name(function), nb::is_method(), nb::arg(name).none(), nb::sig(shown.c_str()), doc);
}

}  // namespace

void bind_wrong_types(nb::module_& m) {
  const nb::object matcher = m.attr("Matcher");
  guard(matcher, "accept", "token", kToken, docs::accept);
  guard(matcher, "explanation", "token", kToken, docs::explanation);
  guard(matcher, "accepts", "tokens", kTokens, docs::accepts);
  guard(matcher, "try_accept", "token", kToken, docs::try_accept);
  guard(matcher, "try_accepts", "tokens", kTokens, docs::try_accepts);
  guard(matcher, "history", "last", kCount, docs::history);
  guard(matcher, "accept_bytes", "data", "bytes", docs::accept_bytes);
  guard(matcher, "rollback", "n", kCount, docs::rollback);
  guard(matcher, "forced_bytes", "at_most", kCount, docs::forced_bytes);
  guard(matcher, "single_tokens", "at_most", kCount, docs::single_tokens);
  guard(matcher, "fill_mask", "row", kRow, docs::fill_mask);
  nb::cpp_function_def(
      [](Matcher&, Anything, Anything) {
        throw Error("wrong_type", std::string("at_most must be ") + kCount + "; and row " + kRow);
      },
      nb::scope(matcher), nb::name("fill_ending_mask"), nb::is_method(), "at_most"_a.none(), "row"_a.none(),
      nb::sig("def fill_ending_mask(self, at_most: object, row: object) -> NoReturn"), docs::fill_ending_mask);
  nb::cpp_function_def(
      [](Matcher&, Anything, Anything) {
        throw Error("wrong_type", std::string("before must be bytes; and row ") + kRow);
      },
      nb::scope(matcher), nb::name("fill_healing_mask"), nb::is_method(), "before"_a.none(), "row"_a.none(),
      nb::sig("def fill_healing_mask(self, before: object, row: object) -> NoReturn"), docs::fill_healing_mask);
  nb::cpp_function_def(
      [](Matcher&, Anything, Anything, Anything) {
        throw Error("wrong_type", std::string("tokens must be ") + kTokens + "; rows must be " + kRows +
                                      "; and parents a list of ints of 32 bits, or None");
      },
      nb::scope(matcher), nb::name("fill_draft_masks"), nb::is_method(), "tokens"_a.none(), "rows"_a.none(),
      "parents"_a.none() = nb::none(),
      nb::sig("def fill_draft_masks(self, tokens: object, rows: object, parents: object = None) -> NoReturn"),
      docs::fill_draft_masks);
  m.def(
      "fill_masks",
      [](Anything, Anything, Anything) {
        throw Error("wrong_type", std::string("matchers must be a list of narrows.Matcher; rows must be ") + kRows +
                                      "; and threads an int from 0, or None");
      },
      "matchers"_a.none(), "rows"_a.none(), "threads"_a.none());
}
