// Writes the nodes of narrows/grammar/ir.py as the flat arrays of grammar/ir.hpp. narrows/grammar/flatten.py is the face
// of this class, and says what each limit means.
//
// A node is Python's and immutable. One that occurs in several places is written once. Cost: some 0.3 us for each node,
// most of it to read Python's attributes.
#include "bind/flatten.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "grammar/ir.hpp"
#include "intern.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using narrows::Error;
using narrows::IdTable;
using narrows::kNone;
using narrows::NodeKind;

constexpr std::uint32_t kNoMax = 0xffffffff;
constexpr std::uint64_t kMostRepeats = (1u << 31) - 1;
constexpr std::uint64_t kSortedBytes = 8;  // of a text, in a unit of work: the core sorts its suffixes

enum Class : std::uint8_t {
  kBytes,
  kByteSet,
  kLiterals,
  kSubstrings,
  kSeq,
  kAlt,
  kRepeat,
  kAnd,
  kNot,
  kLexeme,
  kRef,
  kMarker,
  kToken,
  kDistinct,
  kGuard,
  kCounted,
  kClasses
};
constexpr std::array<const char*, kClasses> kClassNames{"Bytes",  "ByteSet",  "Literals", "Substrings", "Seq", "Alt",
                                                        "Repeat", "And",      "Not",      "Lexeme",     "Ref", "Marker",
                                                        "Token",  "Distinct", "Guard",    "Counted"};
constexpr std::array<NodeKind, kClasses> kKinds{
    NodeKind::bytes,  NodeKind::set,      NodeKind::literals,   NodeKind::substrings, NodeKind::seq,  NodeKind::alt,
    NodeKind::repeat, NodeKind::both,     NodeKind::complement, NodeKind::lexeme,     NodeKind::rule, NodeKind::token,
    NodeKind::token,  NodeKind::distinct, NodeKind::guard,      NodeKind::counted};

constexpr std::array<const char*, 3> kSpellings{"bytes", "json", "single"};  // narrows::NameSpelling
constexpr std::array<const char*, 2> kUnits{"pieces", "characters"};         // narrows::Unit

nb::object interned(const char* name) { return nb::steal(PyUnicode_InternFromString(name)); }

std::span<const std::uint8_t> bytes_of(nb::handle data) {
  if (!PyBytes_Check(data.ptr())) throw nb::type_error("a node of the intermediate form holds what is not bytes");
  return {reinterpret_cast<const std::uint8_t*>(PyBytes_AsString(data.ptr())),
          static_cast<std::size_t>(PyBytes_Size(data.ptr()))};
}

// The tuple keeps them.
template <class Visit>
void for_each_item(nb::handle tuple, Visit&& visit) {
  if (!PyTuple_Check(tuple.ptr())) throw nb::type_error("a node of the intermediate form holds what is not a tuple");
  const Py_ssize_t count = PyTuple_Size(tuple.ptr());
  for (Py_ssize_t i = 0; i < count; ++i) visit(PyTuple_GetItem(tuple.ptr(), i));
}

std::uint64_t number_of(nb::handle number) {
  int overflow = 0;
  PyObject* index = PyNumber_Index(number.ptr());  // also numpy's integers
  if (index == nullptr) throw nb::python_error();
  const nb::object whole = nb::steal(index);
  const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (overflow > 0) return ~0ull;
  if (overflow < 0 || value < 0) throw nb::value_error("a node of the intermediate form holds a negative number");
  return static_cast<std::uint64_t>(value);
}

class Flattening {
 public:
  Flattening(nb::dict rules, nb::dict numbers, nb::object tokens, std::uint64_t spent, std::uint64_t most_work,
             std::uint64_t most_nodes)
      : rules_(std::move(rules)),
        numbers_(std::move(numbers)),
        tokens_(std::move(tokens)),
        spent_(spent),
        most_work_(most_work),
        most_nodes_(most_nodes) {
    const nb::module_ ir = nb::module_::import_("narrows.grammar.ir");
    for (std::size_t i = 0; i < kClasses; ++i) classes_[i] = ir.attr(kClassNames[i]);
  }
  Flattening(const Flattening&) = delete;
  Flattening& operator=(const Flattening&) = delete;

  std::uint64_t spent() const { return spent_; }

  // Writes a node and all that it refers to within its rule. Returns its index.
  std::uint32_t add(nb::handle root);
  nb::dict arrays() const;

 private:
  // A node whose parts are being written. They are the last of `parts_`, from `first` on.
  struct Open {
    PyObject* node;
    std::uint32_t at;  // in `met_`
    Class kind;
    bool within;  // whether the parts lie inside of a lexeme, where rules stand for their bodies
    std::size_t first, next;
  };
  struct Part {
    PyObject* node;
    std::uint32_t index;  // once it is written
  };
  struct Met {
    PyObject* node;
    std::uint32_t index;  // kNone while its parts are being written
    bool inside;
  };

  Class class_of(nb::handle node) const;
  nb::object body(const nb::object& name) const;
  std::uint32_t met(PyObject* node, bool inside) const;
  void open(PyObject* node, bool inside);
  std::uint32_t write(const Open& here);
  std::uint32_t append(NodeKind kind, std::uint32_t a = 0, std::uint32_t b = 0);
  std::uint32_t append_tokens(nb::handle node);
  std::uint32_t spelling_of(nb::handle node) const;
  std::uint32_t unit_of(nb::handle node) const;
  std::uint32_t string(std::span<const std::uint8_t> data);
  std::pair<std::uint32_t, std::uint32_t> strings(nb::handle options);
  void push_string(std::span<const std::uint8_t> data);
  void grow(std::uint64_t weight);
  void spend(std::uint64_t units);

  nb::dict rules_, numbers_;
  nb::object tokens_;
  std::uint64_t spent_, most_work_, most_nodes_, weight_ = 0;
  std::array<nb::object, kClasses> classes_;
  nb::object items_ = interned("items"), item_ = interned("item"), data_ = interned("data"), bits_ = interned("bits"),
             options_ = interned("options"), min_ = interned("min"), max_ = interned("max"), most_ = interned("most"),
             name_ = interned("name"), names_ = interned("names"), spelling_ = interned("spelling"),
             negate_ = interned("negate"), text_ = interned("text"), unit_ = interned("unit"), read_ = interned("read"),
             to_bytes_ = interned("to_bytes"), little_ = interned("little");

  std::vector<Met> met_;
  IdTable met_ids_;
  std::vector<Open> open_;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> kinds_;
  std::vector<std::uint32_t> a_, b_, child_offsets_{0}, children_;
  std::vector<std::uint32_t> string_offsets_{0};
  std::vector<std::uint8_t> string_bytes_;
  IdTable string_ids_;
};

void Flattening::grow(std::uint64_t weight) {
  weight_ += weight;
  if (weight_ > most_nodes_)
    narrows::limit_reached("ir_nodes", "the grammar has more than " + std::to_string(most_nodes_) + " nodes");
}

void Flattening::spend(std::uint64_t units) {
  spent_ += units;
  if (spent_ > most_work_)
    narrows::limit_reached("reading_work",
                           "reading this takes more than " + std::to_string(most_work_) + " units of work");
}

Class Flattening::class_of(nb::handle node) const {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(node.ptr()));
  for (std::size_t i = 0; i < kClasses; ++i)
    if (classes_[i].ptr() == type) return static_cast<Class>(i);
  throw nb::type_error(("not a node of the intermediate form: " + std::string(nb::repr(node).c_str())).c_str());
}

nb::object Flattening::body(const nb::object& name) const {
  if (!rules_.contains(name))
    throw Error("rule_missing", "the grammar has no rule " + std::string(nb::repr(name).c_str()));
  return rules_[name];
}

// The place in `met_`, or kNone.
std::uint32_t Flattening::met(PyObject* node, bool inside) const {
  const std::uint64_t hash = narrows::mix(inside ? 1 : 0, reinterpret_cast<std::uintptr_t>(node));
  return met_ids_.find(hash, [&](std::uint32_t i) { return met_[i].node == node && met_[i].inside == inside; });
}

std::uint32_t Flattening::add(nb::handle root) {
  open_.clear();
  parts_.clear();
  if (const std::uint32_t at = met(root.ptr(), false); at != kNone) return met_[at].index;
  open(root.ptr(), false);
  while (true) {
    Open& here = open_.back();
    if (here.next < parts_.size()) {
      Part& part = parts_[here.next];
      const std::uint32_t at = met(part.node, here.within);
      if (at == kNone) {
        open(part.node, here.within);
      } else {
        if (met_[at].index == kNone) throw Error("ir_invalid", "a regular part of the grammar refers to itself");
        part.index = met_[at].index;
        ++here.next;
      }
      continue;
    }
    const std::uint32_t index = met_[here.at].index = write(here);
    parts_.resize(here.first);
    open_.pop_back();
    if (open_.empty()) return index;
    parts_[open_.back().next++].index = index;
  }
}

// The parts are held by the node, and a rule's body by the rules.
void Flattening::open(PyObject* node, bool inside) {
  const Class kind = class_of(node);
  const auto at = static_cast<std::uint32_t>(met_.size());
  met_ids_.insert(narrows::mix(inside ? 1 : 0, reinterpret_cast<std::uintptr_t>(node)), at);
  met_.push_back({node, kNone, inside});
  const std::size_t first = parts_.size();
  open_.push_back({node, at, kind, inside || kind == kLexeme || kind == kAnd || kind == kNot, first, first});
  if (kind == kSeq || kind == kAlt || kind == kAnd) {
    const auto items = nb::object(nb::getattr(nb::handle(node), items_));
    for_each_item(items, [&](PyObject* item) { parts_.push_back({item, kNone}); });
  } else if (kind == kRepeat || kind == kNot || kind == kLexeme || kind == kDistinct || kind == kCounted) {
    parts_.push_back({nb::object(nb::getattr(nb::handle(node), item_)).ptr(), kNone});
  } else if (kind == kRef && inside) {
    parts_.push_back({body(nb::getattr(nb::handle(node), name_)).ptr(), kNone});
  }
}

std::uint32_t Flattening::append(NodeKind kind, std::uint32_t a, std::uint32_t b) {
  grow(1);
  kinds_.push_back(static_cast<std::uint8_t>(kind));
  a_.push_back(a);
  b_.push_back(b);
  spend(2 + (children_.size() - child_offsets_.back()) / 4);
  child_offsets_.push_back(static_cast<std::uint32_t>(children_.size()));
  return static_cast<std::uint32_t>(a_.size() - 1);
}

void Flattening::push_string(std::span<const std::uint8_t> data) {
  string_bytes_.insert(string_bytes_.end(), data.begin(), data.end());
  if (string_bytes_.size() >= kNone) narrows::limit_reached("ir_nodes", "the grammar's texts have 4 GB and more");
  string_offsets_.push_back(static_cast<std::uint32_t>(string_bytes_.size()));
}

// Equal texts stand once.
std::uint32_t Flattening::string(std::span<const std::uint8_t> data) {
  std::uint64_t hash = narrows::mix(0, data.size());
  for (std::uint8_t byte : data) hash = narrows::mix(hash, byte);
  const auto text = [&](std::uint32_t i) {
    return std::span(string_bytes_).subspan(string_offsets_[i], string_offsets_[i + 1] - string_offsets_[i]);
  };
  const std::uint32_t known =
      string_ids_.find(hash, [&](std::uint32_t i) { return std::ranges::equal(text(i), data); });
  if (known != kNone) return known;
  const auto made = static_cast<std::uint32_t>(string_offsets_.size() - 1);
  grow(data.size() / 16);
  push_string(data);
  string_ids_.insert(hash, made);
  return made;
}

// Texts that stand one after the other. Returns the first one's number and how many they are.
std::pair<std::uint32_t, std::uint32_t> Flattening::strings(nb::handle options) {
  const auto first = static_cast<std::uint32_t>(string_offsets_.size() - 1);
  std::size_t count = 0, length = 0;
  for_each_item(options, [&](PyObject* item) {
    const auto text = bytes_of(item);
    ++count;
    length += text.size();
    push_string(text);
  });
  const std::uint64_t weight = count / 16 + length / 16;
  grow(weight);
  spend(weight / 8);
  return {first, static_cast<std::uint32_t>(count)};
}

// The place of a node's tokens, which Python keeps. A marker for which the vocabulary has no token is its bytes.
std::uint32_t Flattening::append_tokens(nb::handle node) {
  const auto place = nb::cast<std::optional<std::pair<std::uint32_t, std::uint32_t>>>(tokens_(node));
  if (place) {
    spend(place->second / 16);
    return append(NodeKind::token, place->first, place->second);
  }
  const nb::object text = nb::getattr(nb::getattr(node, text_), "encode")();
  return append(NodeKind::bytes, string(bytes_of(text)));
}

std::uint32_t Flattening::spelling_of(nb::handle node) const {
  const std::string spelling = nb::cast<std::string>(nb::getattr(node, spelling_));
  for (std::size_t i = 0; i < kSpellings.size(); ++i)
    if (spelling == kSpellings[i]) return static_cast<std::uint32_t>(i);
  throw nb::value_error("a node of the intermediate form has a spelling that does not exist");
}

std::uint32_t Flattening::unit_of(nb::handle node) const {
  const std::string unit = nb::cast<std::string>(nb::getattr(node, unit_));
  for (std::size_t i = 0; i < kUnits.size(); ++i)
    if (unit == kUnits[i]) return static_cast<std::uint32_t>(i);
  throw nb::value_error("a node of the intermediate form has a unit that does not exist");
}

// All its parts are written.
std::uint32_t Flattening::write(const Open& here) {
  const nb::handle node = here.node;
  const auto append_parts = [&] {
    for (std::size_t i = here.first; i < parts_.size(); ++i) children_.push_back(parts_[i].index);
  };
  switch (here.kind) {
    case kBytes: {
      const nb::object data = nb::getattr(node, data_);
      return append(NodeKind::bytes, string(bytes_of(data)));
    }
    case kByteSet: {
      const nb::object bits = nb::object(nb::getattr(node, bits_)).attr(to_bytes_)(32, little_);
      return append(NodeKind::set, string(bytes_of(bits)));
    }
    case kLiterals: {
      const auto [first, count] = strings(nb::object(nb::getattr(node, options_)));
      return append(NodeKind::literals, first, count);
    }
    case kSubstrings: {
      const nb::object text = nb::getattr(node, text_), read = nb::getattr(node, read_);
      const std::uint32_t at = string(bytes_of(text));
      spend(bytes_of(text).size() / kSortedBytes);
      return append(NodeKind::substrings, at, unit_of(node) + 2 * string(bytes_of(read)));
    }
    case kSeq:
    case kAlt:
    case kAnd:
    case kNot:
    case kLexeme:
      append_parts();
      return append(kKinds[here.kind]);
    case kRepeat: {
      const nb::object most = nb::getattr(node, max_);
      const std::uint64_t low = number_of(nb::object(nb::getattr(node, min_)));
      const std::uint64_t high = most.is_none() ? kNoMax : number_of(most);
      if (low > kMostRepeats || (!most.is_none() && high > kMostRepeats))
        throw Error("repeat_too_large", "a repetition is bounded by more than " + std::to_string(kMostRepeats));
      if (low > high) return append(NodeKind::alt);
      append_parts();
      return append(NodeKind::repeat, static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high));
    }
    case kRef: {
      const nb::object name = nb::getattr(node, name_);
      if (!here.within) {
        body(name);  // refused where there is none
        return append(NodeKind::rule, nb::cast<std::uint32_t>(numbers_[name]));
      }
      append_parts();
      return append(NodeKind::lexeme);
    }
    case kMarker:
    case kToken:
      return append_tokens(node);
    case kDistinct: {
      const nb::object name = nb::getattr(node, name_);
      const std::uint32_t index = name.is_none() ? 0 : 1 + string(bytes_of(name));
      append_parts();
      return append(NodeKind::distinct, spelling_of(node), index);
    }
    case kCounted: {
      const std::uint64_t most = number_of(nb::object(nb::getattr(node, most_)));
      if (most < 1 || most > narrows::kMostCounted)
        throw Error("repeat_too_large",
                    "a number of tokens is bounded by 1 and " + std::to_string(narrows::kMostCounted));
      append_parts();
      return append(NodeKind::counted, static_cast<std::uint32_t>(most));
    }
    case kGuard: {
      const auto [first, count] = strings(nb::object(nb::getattr(node, names_)));
      const bool negated = nb::cast<bool>(nb::getattr(node, negate_));
      return append(NodeKind::guard, first, 4 * count + (negated ? 2 : 0) + (spelling_of(node) != 0 ? 1 : 0));
    }
    case kClasses:
      break;
  }
  return kNone;
}

template <class T>
nb::bytes bytes_of_array(const std::vector<T>& array) {
  return nb::bytes(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T));
}

nb::dict Flattening::arrays() const {
  nb::dict made;
  made["kinds"] = bytes_of_array(kinds_);
  made["a"] = bytes_of_array(a_);
  made["b"] = bytes_of_array(b_);
  made["child_offsets"] = bytes_of_array(child_offsets_);
  made["children"] = bytes_of_array(children_);
  made["string_offsets"] = bytes_of_array(string_offsets_);
  made["string_bytes"] = bytes_of_array(string_bytes_);
  return made;
}

}  // namespace

void bind_flatten(nb::module_& m) {
  nb::class_<Flattening>(m, "Flattening")
      .def(nb::init<nb::dict, nb::dict, nb::object, std::uint64_t, std::uint64_t, std::uint64_t>(), "rules"_a,
           "numbers"_a, "tokens"_a, "spent"_a, "most_work"_a, "most_nodes"_a)
      .def("add", &Flattening::add, "root"_a)
      .def("arrays", &Flattening::arrays)
      .def_prop_ro("spent", &Flattening::spent);
}
