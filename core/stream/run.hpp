// Deltas that need no region: the fast lane of the stream parser (src/narrows/stream/parser.py).
//
// Most deltas are a few plain characters of a string, a text, a name or a marker. Where a region waits for more it says by a `Run`
// what such text is there; a `RunReader` then takes delta after delta, in time linear in the delta, until one comes that completes a
// marker, or is not plain for another reason. That delta is left whole to the region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "automata/byteset.hpp"
#include "stream/characters.hpp"
#include "stream/json_scanner.hpp"
#include "stream/markers.hpp"

namespace narrows {

// What plain text is, at one kind of place. Immutable, but for the scanner of a JSON value.
struct Run {
  enum class Kind {
    text,    // until one of `markers`; the beginning of one waits
    json,    // the value that `scanner` reads
    name,    // waits, whole, until one of `markers`; a blank may stand before it
    marker,  // the beginning of one of `markers` waits, for the rest of it
  };

  Kind kind = Kind::name;
  Markers markers;
  ByteSet stops;         // ASCII characters that are never plain, unless a marker begins with them
  bool quoted = false;   // of a text: it is written as the inside of a JSON string
  bool escapes = false;  // of a quoted text: a backslash and a letter stand for a character, as in Python
  std::shared_ptr<JsonScanner> scanner;
  ByteSet special;  // ASCII characters of a text that must be looked at, as opposed to passed on

  void find_special();
  bool passes(char32_t c) const;
};

class RunReader {
 public:
  enum class Step { not_plain, whole, part, wait };  // `whole`: the delta is one piece as it is; `part`: see `piece`

  // `any_text`: characters beyond ASCII may be plain, for each is itself and counts one. At most `longest` characters are plain.
  RunReader(bool any_text, std::size_t longest) : any_text_(any_text), longest_(longest) {}

  // From here on `run` holds, behind `unread` (what waits already).
  void arm(const Run* run, std::u32string unread);
  void disarm() { run_ = nullptr; }
  Step read(const Characters& text, bool ascii);

  const std::u32string& unread() const { return unread_; }
  // After `part`: what was read, as it is to be written, and how many characters of the input it was.
  const std::u32string& piece() const { return piece_; }
  std::size_t width() const { return width_; }

 private:
  Step read_text(const Characters& text);
  Step read_name(const Characters& text);
  Step wait(const Characters& text);
  bool begins_marker(const Characters& text) const;
  std::u32string unread_and(const Characters& text) const;

  static constexpr std::size_t kWaiting = 64;  // a name so long is for the region to judge

  const Run* run_ = nullptr;
  std::u32string unread_;
  std::u32string piece_;
  std::size_t width_ = 0;
  bool any_text_;
  std::size_t longest_;
};

}  // namespace narrows
