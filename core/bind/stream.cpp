// The fast lane of the stream parser as Python sees it: strings in, events out. narrows/stream/parser.py drives it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bind/stream.hpp"
#include "bind/text.hpp"
#include "stream/run.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Without the GIL, one call at a time has the object. With it, this is nothing.
using Alone = nb::lock_self;
using narrows::Characters;
using narrows::JsonScanner;
using narrows::Link;
using narrows::Markers;
using narrows::Run;
using narrows::RunReader;

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}

void set_item(const nb::object& list, Py_ssize_t at, nb::object item) {
  if (PyList_SetItem(list.ptr(), at, item.release().ptr()) != 0) nb::raise_python_error();
}

// Makes instances of a class with `__slots__`, without its `__init__`, which would cost more than all else in a delta.
class SlotsClass {
 public:
  SlotsClass(nb::object type, std::initializer_list<const char*> names) : type_(std::move(type)) {
    if (!PyType_Check(type_.ptr())) throw nb::type_error("events are made of a class");
    alloc_ = function<allocfunc>(type_, Py_tp_alloc);
    for (const char* name : names) {
      nb::object slot = nb::getattr(type_, name);
      const auto set = function<descrsetfunc>(slot.type(), Py_tp_descr_set);
      if (set == nullptr) throw nb::type_error("the class of events has no such slot");
      slots_.push_back({std::move(slot), set});
    }
  }

  // Values in the order of the slots.
  nb::object make(std::initializer_list<nb::handle> values) const {
    nb::object made = nb::steal(alloc_(reinterpret_cast<PyTypeObject*>(type_.ptr()), 0));
    if (!made.is_valid()) nb::raise_python_error();
    for (std::size_t i = 0; const nb::handle value : values) {
      const Slot& slot = slots_[i++];
      if (slot.set(slot.descriptor.ptr(), made.ptr(), value.ptr()) != 0) nb::raise_python_error();
    }
    return made;
  }

 private:
  struct Slot {
    nb::object descriptor;
    descrsetfunc set;
  };
  template <class Function>
  static Function function(nb::handle type, int slot) {
    return reinterpret_cast<Function>(PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type.ptr()), slot));
  }

  nb::object type_;
  allocfunc alloc_ = nullptr;
  std::vector<Slot> slots_;
};

// A run, and what Python knows of it: the class of the events that its pieces become (none: arguments of the open
// call), and what brings the machine to the place where the run holds, if links lead there.
struct RunOfEvents : Run {
  std::optional<SlotsClass> event;
  nb::object resume = nb::none();
  std::vector<nb::object> linked;  // keeps what the links point to
};

// Runs and regions refer to each other: Python's collector must see that.
int traverse_run(PyObject* self, visitproc visit, void* arg) {
  if (const int stopped = visit(reinterpret_cast<PyObject*>(Py_TYPE(self)), arg); stopped != 0) return stopped;
  if (!nb::inst_ready(self)) return 0;
  const auto& made = *nb::inst_ptr<RunOfEvents>(self);
  if (const int stopped = visit(made.resume.ptr(), arg); stopped != 0) return stopped;
  for (const nb::object& linked : made.linked)
    if (const int stopped = visit(linked.ptr(), arg); stopped != 0) return stopped;
  return 0;
}

int clear_run(PyObject* self) {
  auto& made = *nb::inst_ptr<RunOfEvents>(self);
  made.links.clear();
  made.otherwise = {};
  made.resume = nb::none();
  std::vector<nb::object>().swap(made.linked);
  return 0;
}

std::array run_slots{PyType_Slot{Py_tp_traverse, reinterpret_cast<void*>(&traverse_run)},
                     PyType_Slot{Py_tp_clear, reinterpret_cast<void*>(&clear_run)}, PyType_Slot{0, nullptr}};

Markers markers(const nb::tuple& texts) {
  std::vector<std::u32string> copies;
  for (nb::handle text : texts)
    if (std::u32string copy = copied(nb::cast<nb::str>(text)); !copy.empty()) copies.push_back(std::move(copy));
  return Markers(std::move(copies));
}

narrows::ByteSet ascii_set(const nb::str& characters_of) {
  narrows::ByteSet set;
  const Characters chars = characters(characters_of);
  for (std::size_t i = 0; i < chars.size(); ++i)
    if (chars[i] < 0x80) set.add(static_cast<std::uint8_t>(chars[i]));
  return set;
}

RunOfEvents run_of_text(const nb::tuple& texts, nb::object event, const nb::str& stops, bool escapes) {
  RunOfEvents made{Run{.kind = Run::Kind::text,
                       .markers = markers(texts),
                       .stops = ascii_set(stops),
                       .quoted = event.is_none(),
                       .escapes = escapes}};
  made.find_special();
  if (!made.quoted) made.event.emplace(std::move(event), std::initializer_list<const char*>{"text", "span"});
  return made;
}

RunOfEvents run_of_name(const nb::str& stops, const nb::tuple& texts, const nb::str& lead) {
  return {Run{.kind = Run::Kind::name, .markers = markers(texts), .stops = ascii_set(stops), .lead = copied(lead)}};
}

RunOfEvents run_of_markers(const nb::tuple& texts, bool whitespace_before) {
  return {Run{.kind = Run::Kind::marker, .markers = markers(texts), .whitespace_before = whitespace_before}};
}

RunOfEvents run_of_json(std::shared_ptr<JsonScanner> scanner) {
  return {Run{.kind = Run::Kind::json, .scanner = std::move(scanner)}};
}

void link_run(RunOfEvents& self, const nb::object& marker, const nb::object& next, const nb::object& written,
              const nb::object& key, const nb::object& ahead) {
  Link link{.next = &nb::cast<const RunOfEvents&>(next)};
  if (self.event || (marker.is_none() && link.next->kind != Run::Kind::text))
    throw nb::value_error("links part arguments, and without a marker they lead to a text");
  if (!written.is_none()) link.written = copied(nb::cast<nb::str>(written));
  if (!key.is_none())
    link.key = [key = nb::handle(key)](std::u32string_view name,
                                       std::ptrdiff_t place) -> std::optional<std::u32string> {
      const nb::object made = key(to_str(name), place);
      return made.is_none() ? std::nullopt : std::optional(copied(nb::cast<nb::str>(made)));
    };
  if (!ahead.is_none()) link.ahead = &nb::cast<const RunOfEvents&>(ahead);
  for (const nb::object& kept : {next, key, ahead}) self.linked.push_back(kept);
  if (marker.is_none()) {
    self.otherwise = std::move(link);
    return;
  }
  const auto at = std::ranges::find(self.markers.all(), copied(nb::cast<nb::str>(marker)));
  if (at == self.markers.all().end()) throw nb::value_error("the run has no such marker");
  self.links.resize(self.markers.all().size());
  self.links[static_cast<std::size_t>(at - self.markers.all().begin())] = std::move(link);
}

// A `RunReader` that makes events: `offset` is where what waits begins, `index` the open call's.
class EventReader {
 public:
  EventReader(nb::object arguments, std::size_t longest)
      : arguments_(std::move(arguments), {"index", "text", "span"}), reader_(longest) {}

  void take_any_text() { reader_.take_any_text(); }
  bool takes_any_text() const { return reader_.takes_any_text(); }

  void arm(nb::object run, std::int64_t index, std::int64_t offset, const nb::str& unread) {
    const auto& made = nb::cast<const RunOfEvents&>(run);
    reader_.arm(&made, copied(unread), static_cast<std::ptrdiff_t>(offset));
    armed_ = &made;
    run_ = std::move(run);
    event_ = made.event ? &*made.event : nullptr;
    index_ = nb::int_(index);
  }

  // (offset, what waits, None or what resumes where links have led, None or a name and its span that wait to be
  // written).
  nb::tuple disarm() {
    nb::object resume = nb::none(), name = nb::none();
    offset_ = reader_.place();
    if (const Run* run = reader_.run(); run != nullptr && run != armed_) {
      resume = static_cast<const RunOfEvents*>(run)->resume;
      if (const auto& read = reader_.name()) name = nb::make_tuple(to_str(read->text), span(read->begin, read->end));
    }
    reader_.disarm();
    return nb::make_tuple(offset_, to_str(reader_.unread()), resume, name);
  }

  nb::object unread() const { return to_str(reader_.unread()); }

  // The events of a plain delta; None where a region must read it.
  nb::object read(nb::handle text) {
    if (!PyUnicode_CheckExact(text.ptr())) return nb::none();
    const Characters chars = characters(text);
    offset_ = reader_.place();
    const RunReader::Step step = reader_.read(chars, chars.is_ascii());
    if (step == RunReader::Step::not_plain) return nb::none();
    const bool whole = step == RunReader::Step::whole;
    nb::object events = nb::steal(PyList_New(whole ? 1 : static_cast<Py_ssize_t>(reader_.pieces().size())));
    if (!events.is_valid()) nb::raise_python_error();
    if (whole) {
      const auto size = static_cast<std::int64_t>(chars.size());
      set_item(events, 0, event(text, nb::make_tuple(offset_, offset_ + size)));
      return events;
    }
    std::size_t from = 0;
    for (Py_ssize_t i = 0; const RunReader::Piece& piece : reader_.pieces()) {
      const nb::object said = to_str(reader_.written().substr(from, piece.text_end - from));
      set_item(events, i++, event(said, span(piece.begin, piece.end)));
      from = piece.text_end;
    }
    return events;
  }

 private:
  nb::object event(nb::handle text, const nb::tuple& span) const {
    return event_ == nullptr ? arguments_.make({index_, text, span}) : event_->make({text, span});
  }

  // Places before the delta that is read, or was read last, count from where what waited then began. What stands in the
  // prompt is not the answer's.
  nb::tuple span(std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t first = 0;
    return nb::make_tuple(std::max(first, offset_ + begin), std::max(first, offset_ + end));
  }

  SlotsClass arguments_;
  RunReader reader_;
  const Run* armed_ = nullptr;
  nb::object run_ = nb::none();  // keeps what the reader points to
  const SlotsClass* event_ = nullptr;
  nb::object index_ = nb::none();
  std::int64_t offset_ = 0;
};

}  // namespace

void bind_stream(nb::module_& m) {
  nb::class_<JsonScanner>(m, "JsonScanner")
      .def(nb::init<std::size_t>(), "max_depth"_a)
      .def(
          "scan",
          [](JsonScanner& self, const nb::str& text, std::size_t pos) { return self.scan(characters(text), pos); },
          "text"_a, "pos"_a, Alone())
      .def("end_of_text", &JsonScanner::end_of_text, Alone())
      .def_prop_ro("done", &JsonScanner::done, Alone())
      .def_prop_rw(
          "fault", [](const JsonScanner& self) { return text_or_none(self.fault()); },
          [](JsonScanner& self, const std::string& fault) { self.set_fault(fault); }, Alone())
      .def_prop_ro(
          "flaw", [](const JsonScanner& self) { return text_or_none(self.flaw()); }, Alone())
      .def_prop_ro(
          "kind",
          [](const JsonScanner& self) {
            return self.kind() == 0 ? to_str(U"") : to_str(std::u32string(1, self.kind()));
          },
          Alone())
      .def_prop_ro("in_string", &JsonScanner::in_string, Alone());

  nb::class_<Markers>(m, "Markers")
      .def(
          "__init__", [](Markers* self, const nb::tuple& texts) { new (self) Markers(markers(texts)); }, "markers"_a)
      .def(
          "search",
          [](const Markers& self, const nb::str& text, std::size_t pos, bool final) {
            const Markers::Found found = self.search(characters(text), pos, final);
            return nb::make_tuple(found.at, found.which);
          },
          "text"_a, "pos"_a, "final"_a)
      .def(
          "match",
          [](const Markers& self, const nb::str& text, std::size_t pos, bool final) {
            return self.match(characters(text), pos, final);
          },
          "text"_a, "pos"_a, "final"_a);

  nb::class_<RunOfEvents>(m, "Run", nb::type_slots(run_slots.data()))
      .def_static("of_text", &run_of_text, "markers"_a, "event"_a.none(), "stops"_a = "", "escapes"_a = false)
      .def_static("of_name", &run_of_name, "stops"_a, "markers"_a = nb::tuple(), "lead"_a = "")
      .def_static("of_markers", &run_of_markers, "markers"_a, "whitespace_before"_a = false)
      .def_static("of_json", &run_of_json, "scanner"_a)
      .def("link", &link_run, "marker"_a.none(), "next"_a, "written"_a.none() = nb::none(), "key"_a.none() = nb::none(),
           "ahead"_a.none() = nb::none(), Alone())
      .def_prop_ro("markers",
                   [](const RunOfEvents& self) {
                     nb::list texts;
                     for (const std::u32string& marker : self.markers.all()) texts.append(to_str(marker));
                     return nb::tuple(texts);
                   })
      .def_rw("resume", &RunOfEvents::resume, nb::arg().none(), Alone());

  nb::class_<EventReader>(m, "RunReader")
      .def(nb::init<nb::object, std::size_t>(), "arguments"_a, "longest"_a)
      .def("_take_any_text", &EventReader::take_any_text, Alone())
      .def("_arm", &EventReader::arm, "run"_a, "index"_a, "offset"_a, "unread"_a, Alone())
      .def("_disarm", &EventReader::disarm, Alone())
      .def_prop_ro("_unread", &EventReader::unread, Alone())
      .def("_read_plain", &EventReader::read, "text"_a, Alone())
      .def(
          "feed",
          [](EventReader& self, nb::handle text) -> nb::object {
            if (self.takes_any_text())
              if (nb::object events = self.read(text); !events.is_none()) return events;
            return nb::find(self).attr("_feed")(text);
          },
          "text"_a.none(), Alone(),
          "More text. Returns the events that it adds, adjacent pieces of the same kind joined.");
}
