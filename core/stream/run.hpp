// Reads plain deltas without a region: the fast path of the stream parser (src/narrows/stream/parser.py).
//
// Most deltas are a few plain characters of a string, a text, a name or a marker. A region that waits for more text
// gives a `Run`, which says which text is plain. A `RunReader` then reads deltas, each in linear time, until one
// completes a marker or is not plain for another reason. The region reads that delta, as a whole.
//
// If a marker always leads to the same place (from the end of one parameter to the name of the next), a `Link` says so,
// and the reader goes on by itself. The region of the run where it stops continues from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "automata/byteset.hpp"
#include "stream/characters.hpp"
#include "stream/json_scanner.hpp"
#include "stream/markers.hpp"

namespace narrows {

struct Run;

// What a marker leads to.
struct Link {
  // The text to write for a name at a place of the input. None: a region must handle the name. It is called again for
  // the same place if a delta is read again.
  using Key = std::function<std::optional<std::u32string>(std::u32string_view name, std::ptrdiff_t place)>;

  const Run* next = nullptr;  // null: a region reads the marker
  Key key;                    // of a name
  // The arguments that the marker stands for, written after the text of a name that waits for them. None: the name
  // waits on.
  std::optional<std::u32string> written;
  // For a text's marker: after optional whitespace, a name or a marker of this run must follow. Until then the marker
  // waits. If something else comes, a region must handle it. Null: nothing must follow.
  const Run* ahead = nullptr;
};

// Says which text is plain at one kind of place. Immutable once linked, except for the scanner of a JSON value.
struct Run {
  enum class Kind {
    text,    // until one of `markers`; a prefix of one waits
    json,    // the value that `scanner` reads
    name,    // waits, whole, until one of `markers`; a blank may stand before it
    marker,  // a prefix of one of `markers` waits for the rest of it
  };

  Kind kind = Kind::name;
  Markers markers;
  ByteSet stops;                   // ASCII characters that are never plain, unless a marker begins with them
  bool quoted = false;             // of a text: it is written as the inside of a JSON string
  bool escapes = false;            // of a quoted text: a backslash and a letter stand for a character, as in Python
  bool whitespace_before = false;  // of a marker: whitespace before it is layout
  std::u32string lead;             // of a name: what stands before it
  std::shared_ptr<JsonScanner> scanner;
  ByteSet special;          // ASCII characters of a text that must be looked at, as opposed to passed on
  std::vector<Link> links;  // one per marker, or none at all
  Link otherwise;           // of a marker: where none of them comes

  void find_special();
  bool passes(char32_t c) const;
};

class RunReader {
 public:
  enum class Step { not_plain, whole, pieces };  // `whole`: the delta is one piece as it is; `pieces`: see there

  // The text to write, up to `text_end` in `written`, for the input between two places. Places are counted from the
  // start of the text that waited.
  struct Piece {
    std::size_t text_end;
    std::ptrdiff_t begin, end;
  };
  // A name that has been read but not written. Its places are counted as those of a piece.
  struct Name {
    std::u32string text, written;
    std::ptrdiff_t begin, end;
  };

  // At most `longest` characters are plain.
  explicit RunReader(std::size_t longest) : longest_(longest) {}

  // Characters beyond ASCII may be plain too: each stands for itself and counts one.
  void take_any_text() { any_text_ = true; }
  bool takes_any_text() const { return any_text_; }

  // From here on `run` holds. `unread` is the text that waits already; it begins at this place of the input.
  void arm(const Run* run, std::u32string unread, std::ptrdiff_t place);
  void disarm() { run_ = nullptr; }
  Step read(const Characters& text, bool ascii);

  // The run that holds now. If links were followed, it is not the one that was armed.
  const Run* run() const { return run_; }
  const std::u32string& unread() const { return unread_; }
  const std::optional<Name>& name() const { return name_; }
  // After `pieces`: these, perhaps none, with their text; and how many characters of the input were read, the rest of
  // which waits.
  std::span<const Piece> pieces() const { return pieces_; }
  std::u32string_view written() const { return written_; }
  std::size_t width() const { return at_; }
  // The place in the input where the text that waits begins.
  std::ptrdiff_t place() const { return place_; }

 private:
  enum class Progress { fails, waits, links };
  // A name in `all_`: whether it may be one so far, and the marker that ends it.
  struct NameFound {
    Progress progress = Progress::fails;
    int which = Markers::kNone;
    std::u32string_view name = {};
  };

  Progress read_run();
  Progress read_text();
  Progress read_name();
  NameFound find_name(const Run& run, std::size_t at, std::size_t fresh) const;
  Progress read_marker();
  // A marker has come at `at_`, with or without a name before it.
  Progress follow_name(const NameFound& found);
  std::optional<std::u32string> key_of(const Run& run, std::size_t at, const NameFound& found) const;
  // Whether the text that must follow a marker has come.
  Progress look_ahead(const Run& run, std::size_t at) const;
  Progress follow_marker(int which);
  Progress follow(const Link& link, std::size_t width);
  // A piece of what has been added to `written_`.
  void end_piece(std::ptrdiff_t begin, std::ptrdiff_t end);

  static constexpr std::size_t kLongestName = 64;  // with the markup around it; a longer one is for the region to judge

  const Run* run_ = nullptr;
  std::u32string unread_;
  std::optional<Name> name_;
  bool any_text_ = false;
  std::size_t longest_;
  std::ptrdiff_t place_ = 0;

  // Of the delta that is being read: what it leads to, until it is known to be plain.
  std::u32string all_;  // what waited, and the delta
  std::size_t at_ = 0;
  const Run* in_ = nullptr;
  std::optional<Name> named_;
  std::vector<Piece> pieces_;
  std::u32string written_;
};

}  // namespace narrows
