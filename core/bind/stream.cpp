// The fast lane of the stream parser as Python sees it: strings in, events out. narrows/stream/parser.py drives it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <array>

#include "bind/stream.hpp"
#include "stream/run.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using narrows::Characters;
using narrows::JsonScanner;
using narrows::Markers;
using narrows::Run;
using narrows::RunReader;

Characters characters(nb::handle text) {
  const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr()));
  const void* data = PyUnicode_DATA(text.ptr());
  switch (PyUnicode_KIND(text.ptr())) {
    case PyUnicode_1BYTE_KIND:
      return Characters(std::span(static_cast<const std::uint8_t*>(data), size));
    case PyUnicode_2BYTE_KIND:
      return Characters(std::span(static_cast<const std::uint16_t*>(data), size));
    default:
      return Characters(std::u32string_view(static_cast<const char32_t*>(data), size));
  }
}

std::u32string copied(nb::handle text) {
  std::u32string copy;
  const Characters source = characters(text);
  copy.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) copy.push_back(source[i]);
  return copy;
}

nb::object to_str(const std::u32string& text) {
  return nb::steal(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, text.data(), static_cast<Py_ssize_t>(text.size())));
}

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}

// A run, and the class of the events that its pieces become (none: arguments of the open call).
struct RunOfEvents {
  Run run;
  nb::object event;
};

Markers markers(const nb::tuple& texts) {
  std::vector<std::u32string> copies;
  for (nb::handle text : texts)
    if (PyUnicode_GET_LENGTH(nb::cast<nb::str>(text).ptr()) > 0) copies.push_back(copied(text));
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
  const bool quoted = event.is_none();
  RunOfEvents made{{.kind = Run::Kind::text,
                    .markers = markers(texts),
                    .stops = ascii_set(stops),
                    .quoted = quoted,
                    .escapes = escapes},
                   std::move(event)};
  made.run.find_special();
  return made;
}

RunOfEvents run_of_name(const nb::str& stops, const nb::tuple& texts) {
  return {{.kind = Run::Kind::name, .markers = markers(texts), .stops = ascii_set(stops)}, nb::none()};
}

RunOfEvents run_of_markers(const nb::tuple& texts) {
  return {{.kind = Run::Kind::marker, .markers = markers(texts)}, nb::none()};
}

RunOfEvents run_of_json(std::shared_ptr<JsonScanner> scanner) {
  return {{.kind = Run::Kind::json, .scanner = std::move(scanner)}, nb::none()};
}

// A `RunReader` that makes events: `offset` is where the next character stands, `index` the open call's.
class EventReader {
 public:
  EventReader(nb::object arguments, bool any_text, std::size_t longest)
      : arguments_(std::move(arguments)), reader_(any_text, longest) {}

  void arm(nb::object run, std::int64_t index, std::int64_t offset, const nb::str& unread) {
    const auto& made = nb::cast<const RunOfEvents&>(run);
    reader_.arm(&made.run, copied(unread));
    run_ = std::move(run);
    event_ = made.event;
    index_ = nb::int_(index);
    offset_ = offset;
  }

  nb::tuple disarm() {
    reader_.disarm();
    return nb::make_tuple(offset_, to_str(reader_.unread()));
  }

  nb::object unread() const { return to_str(reader_.unread()); }

  // The events of a plain delta; None where a region must read it.
  nb::object read(nb::handle text) {
    if (!PyUnicode_CheckExact(text.ptr())) return nb::none();
    const Characters chars = characters(text);
    switch (reader_.read(chars, PyUnicode_IS_ASCII(text.ptr()))) {
      case RunReader::Step::not_plain:
        return nb::none();
      case RunReader::Step::wait:
        return nb::list();
      case RunReader::Step::whole:
        return one_event(text, chars.size());
      case RunReader::Step::part:
        return one_event(to_str(reader_.piece()), reader_.width());
    }
    return nb::none();
  }

 private:
  nb::list one_event(nb::handle text, std::size_t width) {
    const std::int64_t start = offset_;
    offset_ += static_cast<std::int64_t>(width);
    const nb::tuple span = nb::make_tuple(start, offset_);
    nb::list events;
    events.append(event_.is_none() ? arguments_(index_, text, span) : event_(text, span));
    return events;
  }

  nb::object arguments_;
  RunReader reader_;
  nb::object run_ = nb::none();  // keeps what the reader points to
  nb::object event_ = nb::none();
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
          "text"_a, "pos"_a)
      .def("end_of_text", &JsonScanner::end_of_text)
      .def_prop_ro("done", &JsonScanner::done)
      .def_prop_rw(
          "fault", [](const JsonScanner& self) { return text_or_none(self.fault()); },
          [](JsonScanner& self, const std::string& fault) { self.set_fault(fault); })
      .def_prop_ro("flaw", [](const JsonScanner& self) { return text_or_none(self.flaw()); })
      .def_prop_ro("kind",
                   [](const JsonScanner& self) {
                     return self.kind() == 0 ? to_str(U"") : to_str(std::u32string(1, self.kind()));
                   })
      .def_prop_ro("in_string", &JsonScanner::in_string);

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

  nb::class_<RunOfEvents>(m, "Run")
      .def_static("of_text", &run_of_text, "markers"_a, "event"_a.none(), "stops"_a = "", "escapes"_a = false)
      .def_static("of_name", &run_of_name, "stops"_a, "markers"_a = nb::tuple())
      .def_static("of_markers", &run_of_markers, "markers"_a)
      .def_static("of_json", &run_of_json, "scanner"_a);

  nb::class_<EventReader>(m, "RunReader")
      .def(nb::init<nb::object, bool, std::size_t>(), "arguments"_a, "any_text"_a, "longest"_a)
      .def("arm", &EventReader::arm, "run"_a, "index"_a, "offset"_a, "unread"_a)
      .def("disarm", &EventReader::disarm)
      .def_prop_ro("unread", &EventReader::unread)
      .def("read", &EventReader::read, "text"_a);
}
