// The Python module narrows._core: conversions and the release of the GIL, nothing else. narrows/vocabulary.py and
// narrows/constraint.py are the faces that users see.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "bind/docs.hpp"
#include "bind/flatten.hpp"
#include "bind/gil.hpp"
#include "bind/regular.hpp"
#include "bind/stream.hpp"
#include "bind/wrong_types.hpp"
#include "match/matcher.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using narrows::Constraint;
using narrows::Error;
using narrows::Matcher;
using narrows::Vocabulary;
namespace docs = narrows::docs;
template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NoGil = nb::call_guard<ReleasedGil>;

// What is known takes about a microsecond a mask: it is read without giving the GIL away. A thread that has given it
// away gets it back when another one pauses, which may be 5 ms later. So many masks or steps are read like this at most.
constexpr std::size_t kBrief = 64;

template <class T>
std::vector<T> to_vector(const Array<T>& array) {
  return {array.data(), array.data() + array.size()};
}

std::span<const std::uint8_t> view(const nb::bytes& data) {
  return {static_cast<const std::uint8_t*>(data.data()), data.size()};
}

nb::bytes to_bytes(std::span<const std::uint8_t> data) { return nb::bytes(data.data(), data.size()); }

std::uint32_t token_id(const Matcher& m, std::int64_t token) {
  const std::uint32_t size = m.constraint().vocabulary().size();
  if (token < 0 || token >= size)
    throw Error("token_out_of_range",
                "token " + std::to_string(token) + " lies outside the vocabulary of " + std::to_string(size));
  return static_cast<std::uint32_t>(token);
}

std::vector<std::uint32_t> token_ids(const Matcher& m, const std::vector<std::int64_t>& tokens) {
  std::vector<std::uint32_t> ids;
  ids.reserve(tokens.size());
  for (std::int64_t t : tokens) ids.push_back(token_id(m, t));
  return ids;
}

// Mask words are bits: int32 outside, because that is what every engine uses, and unsigned inside.
std::span<std::uint32_t> words(std::int32_t* data, std::size_t count) {
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(std::int32_t) != 0)
    throw Error("mask_shape", "a mask row must begin at an address that is a multiple of 4");
  return {reinterpret_cast<std::uint32_t*>(data), count};
}

void check_width(std::size_t given, std::size_t wanted) {
  if (given != wanted)
    throw Error("mask_shape",
                "a mask row has " + std::to_string(given) + " words; the vocabulary needs " + std::to_string(wanted));
}

// Errors keep their code: narrows.errors.from_core makes the Python exception.
void translate(const std::exception_ptr& pointer, void*) {
  // No C++ exception was caught, but the unwinding of a thread that ends: it was in Python's code, called from here
  // (bind/gil.hpp).
  if (pointer == nullptr) stay_until_the_process_ends();
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& e) {
    StaysIfUnwound guard;  // not a catch: inside of one, such unwinding cannot be caught
    try {
      nb::object made =
          nb::module_::import_("narrows.errors").attr("from_core")(e.code, std::string(e.what()), e.limit);
      PyErr_SetObject(made.type().ptr(), made.ptr());
    } catch (const std::exception&) {
      guard.is_past = true;
      throw;
    }
    guard.is_past = true;
  }
}

std::shared_ptr<Constraint> compile(const std::shared_ptr<Vocabulary>& vocabulary, const nb::dict& ir,
                                    const nb::dict& limits) {
  const auto array32 = [&](const char* name) { return to_vector(nb::cast<Array<std::uint32_t>>(ir[name])); };
  const auto array8 = [&](const char* name) { return to_vector(nb::cast<Array<std::uint8_t>>(ir[name])); };
  narrows::Ir made;
  made.kinds = array8("kinds");
  made.a = array32("a");
  made.b = array32("b");
  made.child_offsets = array32("child_offsets");
  made.children = array32("children");
  made.string_offsets = array32("string_offsets");
  made.string_bytes = array8("string_bytes");
  made.tokens = array32("tokens");
  made.rules = array32("rules");
  made.rule_names = nb::cast<std::vector<std::string>>(ir["rule_names"]);
  made.longest = nb::cast<bool>(ir["longest"]);
  made.start = nb::cast<std::uint32_t>(ir["start"]);
  const auto limit = [&limits](const char* name) { return nb::cast<std::uint64_t>(limits[name]); };
  const narrows::Limits kept{
      .states = limit("states"),
      .term_depth = limit("term_depth"),
      .step_work = limit("step_work"),
      .sequence_work = limit("sequence_work"),
      .live_items = limit("live_items"),
      .object_keys = limit("object_keys"),
      .constraint_bytes = limit("constraint_bytes"),
  };
  const ReleasedGil release;
  return std::make_shared<Constraint>(vocabulary, std::move(made),
                                      kept);  // a copy: the last one goes when the GIL is back
}

nb::dict stats(const Constraint& c) {
  narrows::ConstraintStats s;
  {
    const ReleasedGil release;
    const auto lock = c.lane().turn();
    s = c.stats();
  }
  nb::dict out;
  out["states"] = s.states;
  out["configurations"] = s.configs;
  out["masks"] = s.masks;
  out["crossings"] = s.crossings;
  out["bytes"] = s.bytes;
  out["epoch"] = s.epoch;
  out["shared_bytes"] = s.lexicon_bytes;
  out["shared_states"] = s.lexicon_rows;
  out["shared_masks"] = s.lexicon_masks;
  out["shared_crossings"] = s.lexicon_crossings;
  return out;
}

nb::dict explain(Matcher& m, std::int64_t token) {
  narrows::Explanation e;
  {
    const std::uint32_t id = token_id(m, token);
    const ReleasedGil release;
    e = m.explain(id);
  }
  nb::list rules, expected;
  for (std::uint32_t rule : e.rules) rules.append(m.constraint().rule_name(rule));
  for (int b = 0; b < 256; ++b)
    if (e.expected.has(static_cast<std::uint8_t>(b))) expected.append(b);
  nb::dict out;
  out["allowed"] = e.allowed;
  out["offset"] = e.offset;
  out["rules"] = rules;
  out["expected"] = expected;
  out["end_expected"] = e.end_expected;
  out["named_tokens"] = e.named_tokens;
  return out;
}

nb::list shortest_end(Matcher& m) {
  std::vector<narrows::Completion> parts;
  {
    const ReleasedGil release;
    parts = m.shortest_end();
  }
  nb::list out;
  for (const auto& part : parts) {
    if (part.token == narrows::kNone) {
      out.append(to_bytes(part.bytes));
    } else {
      out.append(part.token);
    }
  }
  return out;
}

void fill_masks(const std::vector<Matcher*>& matchers, Rows rows, unsigned threads) {
  if (matchers.size() != rows.shape(0))
    throw Error("mask_shape",
                std::to_string(matchers.size()) + " matchers cannot fill " + std::to_string(rows.shape(0)) + " rows");
  for (const Matcher* m : matchers) {
    if (m == nullptr) throw Error("invalid_input", "a list of matchers holds None");
    check_width(rows.shape(1), m->constraint().vocabulary().mask_words());
  }
  const std::size_t width = rows.shape(1);
  const auto to = words(rows.data(), rows.size());
  std::size_t known = 0;
  if (matchers.size() <= kBrief)
    while (known < matchers.size() && matchers[known]->try_fill_mask(to.subspan(known * width, width))) ++known;
  if (known == matchers.size()) return;
  const ReleasedGil release;
  narrows::fill_masks(std::span(matchers).subspan(known), to.subspan(known * width), width, std::min(threads, 64u));
}

void fill_draft_masks(Matcher& m, const std::vector<std::int64_t>& tokens, Rows rows,
                      const std::optional<std::vector<std::int32_t>>& parents) {
  const auto ids = token_ids(m, tokens);
  check_width(rows.shape(1), m.constraint().vocabulary().mask_words());
  if (rows.shape(0) != tokens.size() + 1)
    throw Error("mask_shape", "a draft of " + std::to_string(tokens.size()) + " tokens needs " +
                                  std::to_string(tokens.size() + 1) +
                                  " rows: one for the text so far and one after each token");
  if (parents && parents->size() != tokens.size()) throw Error("invalid_input", "each draft token needs one parent");
  const auto to = words(rows.data(), rows.size());
  const auto after = parents ? std::span<const std::int32_t>(*parents) : std::span<const std::int32_t>{};
  if (ids.size() < kBrief && m.try_fill_draft_masks(ids, after, to)) return;
  const ReleasedGil release;
  m.fill_draft_masks(ids, after, to);
}

}  // namespace

NB_MODULE(_core, m) {
  nb::register_exception_translator(translate);
  nb::set_leak_warnings(false);

  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(
          "__init__",
          [](Vocabulary* self, Array<std::uint8_t> bytes, Array<std::uint64_t> offsets,
             const std::vector<std::uint32_t>& end_tokens, std::uint32_t size, std::uint64_t max_bytes) {
            auto joined = to_vector(bytes);
            auto starts = to_vector(offsets);
            if (size >= 1u << 31) throw Error("vocabulary_invalid", "a vocabulary has at most 2147483647 tokens");
            if (starts.empty() || starts.front() != 0 || starts.back() != joined.size() ||
                !std::is_sorted(starts.begin(), starts.end()))
              throw Error("vocabulary_invalid", "token offsets do not fit the token bytes");
            const ReleasedGil release;
            new (self) Vocabulary(std::move(joined), std::move(starts), end_tokens, size, max_bytes);
          },
          "bytes"_a, "offsets"_a, "end_tokens"_a, "size"_a, "max_bytes"_a)
      .def_prop_ro("size", &Vocabulary::size)
      .def(
          "token_bytes",
          [](const Vocabulary& v, std::uint32_t token) {
            if (token >= v.size())
              throw Error("token_out_of_range", "token " + std::to_string(token) + " lies outside the vocabulary");
            return token < v.trie().token_count() ? to_bytes(v.trie().token(token)) : nb::bytes("", 0);
          },
          "token"_a)
      .def(
          "extends", [](const Vocabulary& v, const nb::bytes& data) { return v.trie().extends(view(data)); }, "data"_a)
      .def(
          "along", [](const Vocabulary& v, const nb::bytes& data) { return v.trie().along(view(data)); }, "data"_a)
      .def(
          "segment",
          [](const Vocabulary& v, const nb::bytes& data) -> std::optional<std::vector<std::uint32_t>> {
            std::vector<std::uint32_t> out;
            const auto bytes = view(data);
            const ReleasedGil release;
            if (!v.trie().segment(bytes, out)) return std::nullopt;
            return out;
          },
          "data"_a)
      .def_prop_ro("shared_bytes", [](const Vocabulary& v) { return v.shared().bytes(); })
      .def_prop_ro("trie_bytes", [](const Vocabulary& v) { return v.trie().memory(); })
      .def_prop_ro("trie_nodes", [](const Vocabulary& v) { return v.trie().size(); });

  nb::class_<Constraint>(m, "Constraint")
      .def_static("compile", &compile, "vocabulary"_a, "ir"_a, "limits"_a)
      .def_prop_ro("bytes", &Constraint::bytes)
      .def_prop_ro("is_apart", [](const Constraint& c) { return c.lane().is_apart(); })
      .def("stats", &stats);

  nb::class_<Matcher>(m, "Matcher")
      .def(nb::init<std::shared_ptr<Constraint>>(), "constraint"_a, NoGil())
      .def(nb::init<const Matcher&>(), "other"_a, NoGil())
      .def(
          "fill_mask",
          [](Matcher& self, Row row) {
            check_width(row.size(), self.constraint().vocabulary().mask_words());
            const auto to = words(row.data(), row.size());
            if (self.try_fill_mask(to)) return;
            const ReleasedGil release;
            self.fill_mask(to);
          },
          "row"_a.noconvert(), docs::fill_mask)
      .def(
          "accept",
          [](Matcher& self, std::int64_t token) {
            const std::uint32_t id = token_id(self, token);
            if (const std::optional<bool> known = self.try_accept(id)) return *known;
            const ReleasedGil release;
            return self.accept(id);
          },
          "token"_a, docs::accept)
      .def(
          "try_accept", [](Matcher& self, std::int64_t token) { return self.try_accept(token_id(self, token)); },
          "token"_a, docs::try_accept)
      .def(
          "try_accepts",
          [](Matcher& self, const std::vector<std::int64_t>& tokens) {
            return self.try_accepts(token_ids(self, tokens));
          },
          "tokens"_a, docs::try_accepts)
      .def(
          "accept_bytes",
          [](Matcher& self, const nb::bytes& data) {
            const auto bytes = view(data);
            const ReleasedGil release;
            return self.accept_bytes(bytes);
          },
          "data"_a, docs::accept_bytes)
      .def(
          "accepts",
          [](Matcher& self, const std::vector<std::int64_t>& tokens) {
            const auto ids = token_ids(self, tokens);
            if (ids.size() <= kBrief)
              if (const std::optional<std::uint32_t> known = self.try_accepts(ids)) return *known;
            const ReleasedGil release;
            return self.accepts(ids);
          },
          "tokens"_a, docs::accepts)
      .def("rollback", &Matcher::rollback, "n"_a, NoGil(), docs::rollback)
      .def("reset", &Matcher::reset, NoGil(), docs::reset)
      .def_prop_ro(
          "is_accepting",
          [](Matcher& self) {
            if (const std::optional<bool> known = self.try_is_accepting()) return *known;
            const ReleasedGil release;
            return self.is_accepting();
          },
          docs::is_accepting)
      .def_prop_ro("is_finished", &Matcher::is_finished, docs::is_finished)
      .def("__len__", &Matcher::length, docs::length)
      .def(
          "forced_bytes",
          [](Matcher& self, std::size_t at_most) {
            std::vector<std::uint8_t> out;
            {
              const ReleasedGil release;
              out = self.forced_bytes(at_most);
            }
            return to_bytes(out);
          },
          "at_most"_a = 65536, docs::forced_bytes)
      .def("single_tokens", &Matcher::forced_tokens, "at_most"_a = 256, NoGil(), docs::single_tokens)
      .def("only_token", &Matcher::only_token, NoGil(), docs::only_token)
      .def("shortest_parts", &shortest_end, docs::shortest_parts)
      .def("explanation", &explain, "token"_a, docs::explanation)
      .def("fill_draft_masks", &fill_draft_masks, "tokens"_a, "rows"_a.noconvert(), "parents"_a = nb::none(),
           docs::fill_draft_masks)
      .def(
          "fill_ending_mask",
          [](Matcher& self, std::size_t at_most, Row row) {
            check_width(row.size(), self.constraint().vocabulary().mask_words());
            const ReleasedGil release;
            self.fill_ending_mask(at_most, words(row.data(), row.size()));
          },
          "at_most"_a, "row"_a.noconvert(), docs::fill_ending_mask)
      .def(
          "fill_healing_mask",
          [](Matcher& self, const nb::bytes& before, Row row) {
            check_width(row.size(), self.constraint().vocabulary().mask_words());
            const auto bytes = view(before);
            const ReleasedGil release;
            self.fill_healing_mask(bytes, words(row.data(), row.size()));
          },
          "before"_a, "row"_a.noconvert(), docs::fill_healing_mask)
      .def(
          "history",
          [](const Matcher& self, std::size_t last) {
            std::vector<std::int64_t> out;
            for (std::uint32_t t : self.tokens(last))
              out.push_back(t == narrows::kNone ? -1 : static_cast<std::int64_t>(t));
            return out;
          },
          "last"_a = std::numeric_limits<std::int64_t>::max(), docs::history)
      .def(
          "steps",
          [](const Matcher& self) {
            nb::list out;
            for (const narrows::TextStep& step : self.text()) {
              if (step.token == narrows::kNone)
                out.append(to_bytes(step.bytes));
              else
                out.append(step.token);
            }
            return out;
          },
          docs::steps)
      .def_prop_ro("state_key", &Matcher::state_key, docs::state_key);

  m.def("fill_masks", &fill_masks, "matchers"_a, "rows"_a.noconvert(), "threads"_a);
  bind_flatten(m);
  bind_regular(m);
  bind_stream(m);
  bind_wrong_types(m);
}
