// Any text in any pieces: the fast path of the stream parser gives the same result as a plain reading of the whole
// text.
//   - a run of text gives each character exactly once, in order, holds back no more than a prefix of a marker, and
//     leaves exactly the delta that completes the first marker;
//   - a name, or a marker, waits as long as it may be one, and no longer;
//   - linked runs are read alike in pieces and character by character, with names at the same places; a delta that is
//     not plain changes nothing; a marker that needs text after it waits for that text;
//   - JSON is scanned alike in pieces and whole.
#include <algorithm>
#include <string>

#include "fuzz/driver.hpp"
#include "stream/run.hpp"

namespace {

using namespace narrows;
using fuzz::Input;
using fuzz::require;

std::u32string text_from(Input& in, std::u32string_view alphabet, std::uint32_t longest) {
  std::u32string text(in.below(longest + 1), U' ');
  for (char32_t& c : text) c = alphabet[in.below(static_cast<std::uint32_t>(alphabet.size()))];
  return text;
}

RunReader::Step feed(RunReader& reader, const std::u32string& text) {
  const bool ascii = std::ranges::all_of(text, [](char32_t c) { return c < 0x80; });
  return reader.read(Characters(text), ascii);
}

// How much of the text's end may still become a marker.
std::size_t begun(const std::vector<std::u32string>& markers, const std::u32string& text) {
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const std::u32string& m : markers)
      if (m.size() > text.size() - at && m.starts_with(std::u32string_view(text).substr(at))) return text.size() - at;
  return 0;
}

// Whether a marker is complete, in front of what may still become one.
bool complete(const std::vector<std::u32string>& markers, const std::u32string& text) {
  const std::size_t last = text.size() - begun(markers, text);
  return std::ranges::any_of(markers, [&](const std::u32string& m) { return text.find(m) < last; });
}

// The longer ones first, as `Markers` wants them.
std::vector<std::u32string> markers_from(Input& in, std::u32string_view alphabet) {
  std::vector<std::u32string> markers;
  for (std::uint32_t count = in.below(4); count > 0; --count)
    if (const std::u32string marker = text_from(in, alphabet, 5); !marker.empty()) markers.push_back(marker);
  std::ranges::stable_sort(markers, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return markers;
}

void read_text(Input& in) {
  constexpr std::u32string_view alphabet = U"ab<</t>\n\"\\&\u00e9\uff5c\x01";
  Run run{.kind = Run::Kind::text, .markers = Markers(markers_from(in, alphabet)), .quoted = in.below(2) == 0};
  const std::vector<std::u32string>& markers = run.markers.all();
  if (in.below(4) == 0) run.stops.add('&');
  run.find_special();
  const bool any_text = in.below(2) == 0;
  RunReader reader(64);
  if (any_text) reader.take_any_text();
  reader.arm(&run, U"", 0);
  std::u32string all, said;
  while (!in.empty()) {
    const std::u32string delta = text_from(in, alphabet, 7), seen = reader.unread() + delta;
    const bool stopped = run.stops.has('&') && seen.find(U'&') < seen.size() - begun(markers, seen);
    const bool plain = !delta.empty() && !complete(markers, seen) && !stopped;
    const auto step = feed(reader, delta);
    if (step == RunReader::Step::not_plain) {
      const bool foreign = !any_text && std::ranges::any_of(seen, [](char32_t c) { return c >= 0x80; });
      require(!plain || foreign, "only a marker, a stop or a foreign character is not plain");
      return;
    }
    require(plain, "a complete marker is not plain");
    all += delta;
    if (step == RunReader::Step::whole) said += delta;
    if (step == RunReader::Step::pieces) {
      const std::u32string source = all.substr(said.size(), reader.width());
      require(run.quoted || reader.written() == source, "text is given as it is");
      require(reader.written().size() >= source.size(), "nothing is left out");
      require(reader.pieces().size() == (source.empty() ? 0u : 1u), "text without a marker is one piece");
      said += source;
    }
    require(said + reader.unread() == all, "each character is given once or waits");
    require(reader.unread().size() == begun(markers, all.substr(said.size())), "only the beginning of a marker waits");
  }
}

void read_marker(Input& in) {
  const std::vector<std::u32string> markers = markers_from(in, U"abc");
  const Run run{.kind = Run::Kind::marker, .markers = Markers(markers)};
  RunReader reader(64);
  reader.arm(&run, U"", 0);
  std::u32string all;
  while (!in.empty()) {
    const std::u32string delta = text_from(in, U"abc", 3), seen = all + delta;
    const bool may = !delta.empty() && std::ranges::any_of(markers, [&](const std::u32string& m) {
      return m.size() > seen.size() && m.starts_with(seen);
    });
    const auto step = feed(reader, delta);
    require((step == RunReader::Step::pieces) == may, "the beginning of a marker waits");
    if (!may) return;
    all = seen;
    require(reader.unread() == all, "what waits is all that came");
  }
}

// A reader, and all that it has said.
struct Reading {
  RunReader reader{64};
  std::u32string written;
  std::size_t width = 0;

  bool take(const std::u32string& delta) {
    const auto step = feed(reader, delta);
    if (step == RunReader::Step::not_plain) return false;
    const bool whole = step == RunReader::Step::whole;
    written += whole ? delta : std::u32string(reader.written());
    width += whole ? delta.size() : reader.width();
    std::ptrdiff_t last = -1000;
    if (!whole)
      for (const RunReader::Piece& piece : reader.pieces()) {
        require(last <= piece.begin && piece.begin <= piece.end, "pieces stand in order");
        last = piece.end;
      }
    return true;
  }

  void require_like(const Reading& other) const {
    require(reader.run() == other.reader.run() && reader.unread() == other.reader.unread(), "the same waits");
    require(written == other.written && width == other.width, "the same was said");
    require(reader.place() == other.reader.place() && reader.place() == 7 + static_cast<std::ptrdiff_t>(width),
            "what waits begins at the same place");
    const auto &name = reader.name(), &same = other.reader.name();
    require(name.has_value() == same.has_value(), "a name waits in both");
    if (!name) return;
    require(name->text == same->text && name->written == same->written, "the same name waits");
    require(name->begin == same->begin && name->end == same->end, "it stood at the same place");
  }
};

void read_linked(Input& in) {
  const std::u32string lead = in.below(2) ? U"" : U"k:", line = U"\n";
  Run text{.kind = Run::Kind::text, .markers = Markers({U"\n</p>", U"</p>"}), .quoted = true};
  Run between{.kind = Run::Kind::marker, .markers = Markers({U"<p=", U"</c>"}), .whitespace_before = true};
  Run name{.kind = Run::Kind::name, .markers = Markers({U">"}), .lead = lead};
  Run tag{.kind = Run::Kind::marker, .markers = Markers({U"<v>"}), .whitespace_before = true};
  Run begin{.kind = Run::Kind::marker, .markers = Markers({line})};
  for (const char c : {' ', '\n', '<'}) name.stops.add(static_cast<std::uint8_t>(c));
  text.find_special();
  const Link::Key key = [](std::u32string_view of, std::ptrdiff_t place) -> std::optional<std::u32string> {
    if (of == U"b") return std::nullopt;
    return U", " + std::u32string(of) + std::u32string(static_cast<std::size_t>(place % 16), U'.') + U": ";
  };
  const Run tags{.kind = Run::Kind::marker, .markers = Markers({U"</p>", U"<p=", U"<v"}), .whitespace_before = true};
  const std::uint32_t ahead = in.below(3);
  const Run* const wanted = ahead == 0 ? nullptr : ahead == 1 ? &tags : &name;
  const Run* const behind = ahead == 2 ? &name : &between;
  text.links = {{behind, nullptr, U"\"", wanted}, {behind, nullptr, U"\"", wanted}};
  between.links = {{&name, nullptr, std::nullopt}, {}};
  if (in.below(2))
    name.links = {{&begin, key, U"\""}};
  else
    name.links = {{&tag, key, std::nullopt}};
  tag.links = {{&begin, nullptr, U"\""}};
  begin.links = {{&text, nullptr, std::nullopt}};
  begin.otherwise = {&text, nullptr, std::nullopt};

  const std::vector<std::u32string> parts = {U"</p>", U"<p=", U"a>", U"b", U"\n", U" ", U"<", U"é", U"\"", U"</c"};
  const std::vector<std::u32string> usual = {U"</p>",
                                             ahead == 2 ? U"" : U"\n",
                                             ahead == 2 ? U"" : U"<p=",
                                             lead,
                                             U"a",
                                             U">",
                                             name.links[0].next == &tag ? U" <v>" : U"",
                                             U"a"};
  std::size_t next = 0;
  Reading pieces, single;
  const bool any_text = in.below(2) == 0;
  for (Reading* reading : {&pieces, &single}) {
    if (any_text) reading->reader.take_any_text();
    reading->reader.arm(&text, U"", 7);
  }
  while (!in.empty()) {
    std::u32string delta;
    for (std::uint32_t count = 1 + in.below(3); count > 0; --count)
      delta += in.below(20) ? usual[next++ % usual.size()] : parts[in.below(static_cast<std::uint32_t>(parts.size()))];
    if (delta.empty()) continue;
    const Reading before = pieces;
    const bool plain = pieces.take(delta);
    bool each = true;
    for (const char32_t c : delta) each = each && single.take(std::u32string(1, c));
    const bool ascii = std::ranges::all_of(delta, [](char32_t c) { return c < 0x80; });
    require(plain ? each : !each || !(ascii || any_text), "what is plain in one piece is so character by character");
    if (!plain) {
      pieces.require_like(before);
      return;
    }
    pieces.require_like(single);
    require(ahead == 0 || pieces.reader.run() != behind, "a marker waits until what must follow it has come");
  }
}

void scan_json(Input& in) {
  constexpr std::u32string_view alphabet = U"{}[],:\"\"\\ub0-1.eE tfn\n\u00e9\x01";
  const std::u32string text = (in.below(2) ? U"{\"a\":" : U"") + text_from(in, alphabet, 60);
  JsonScanner whole(4), pieces(4);
  const std::size_t end = whole.scan(Characters(text), 0);
  std::size_t read = 0;
  while (read < text.size()) {
    const std::u32string delta = text.substr(read, 1 + in.below(5));
    const bool peeked = in.below(2) == 0;
    if (peeked && pieces.reads_all(Characters(delta))) {
      read += delta.size();
      continue;
    }
    const std::size_t at = pieces.scan(Characters(delta), 0);
    read += at;
    if (at < delta.size() || pieces.stopped()) break;
  }
  require(read == end, "the value ends at the same place");
  require(whole.done() == pieces.done() && whole.fault() == pieces.fault() && whole.flaw() == pieces.flaw(),
          "the verdict is the same");
  whole.end_of_text();
  pieces.end_of_text();
  require(whole.done() == pieces.done() && whole.fault() == pieces.fault(), "the verdict at the end is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto reader : {read_text, read_marker, read_linked, scan_json}) {
    Input in(data, size);
    reader(in);
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) { return narrows::fuzz::drive(argc, argv, "random texts read"); }
#endif
