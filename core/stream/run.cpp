#include "stream/run.hpp"

#include <algorithm>
#include <string_view>

namespace narrows {
namespace {

bool is_ascii(char32_t c) { return c < 0x80; }

bool has(const ByteSet& set, char32_t c) { return is_ascii(c) && set.has(static_cast<std::uint8_t>(c)); }

bool written_otherwise(char32_t c) { return c < ' ' || c == '"' || c == '\\'; }

// The inside of a JSON string, as Python's json module writes it without ensure_ascii.
void append_quoted(std::u32string& out, char32_t c) {
  if (!written_otherwise(c)) {
    out.push_back(c);
    return;
  }
  out.push_back('\\');
  constexpr std::u32string_view spelled = U"\"\\\b\f\n\r\t", letters = U"\"\\bfnrt", digits = U"0123456789abcdef";
  if (const auto at = spelled.find(c); at != spelled.npos) {
    out.push_back(letters[at]);
  } else {
    out += U"u00";
    out.push_back(digits[c >> 4]);
    out.push_back(digits[c & 15]);
  }
}

// The character that a letter behind a backslash stands for, in Python as in JSON; 0: more than that letter decides.
char32_t escaped(char32_t letter) {
  constexpr std::u32string_view letters = U"abfnrtv\\'\"/", meant = U"\a\b\f\n\r\t\v\\'\"/";
  const auto at = letters.find(letter);
  return at == letters.npos ? 0 : meant[at];
}

}  // namespace

void Run::find_special() {
  special = stops;
  for (std::uint8_t c = 0; c < 0x80; ++c)
    if (markers.may_begin_with(c) || (quoted && written_otherwise(c))) special.add(c);
}

bool Run::passes(char32_t c) const { return is_ascii(c) ? !has(special, c) : !markers.may_begin_with(c); }

void RunReader::arm(const Run* run, std::u32string unread) {
  run_ = run;
  unread_ = std::move(unread);
}

RunReader::Step RunReader::read(const Characters& text, bool ascii) {
  if (run_ == nullptr || text.size() == 0 || text.size() > longest_) return Step::not_plain;
  switch (run_->kind) {
    case Run::Kind::text:
      return ascii || any_text_ ? read_text(text) : Step::not_plain;
    case Run::Kind::json:
      return unread_.empty() && (ascii || any_text_) && run_->scanner->reads_all(text) ? Step::whole : Step::not_plain;
    case Run::Kind::name:
      return ascii && unread_.size() < kWaiting ? read_name(text) : Step::not_plain;
    case Run::Kind::marker:
      return begins_marker(text) ? wait(text) : Step::not_plain;
  }
  return Step::not_plain;
}

RunReader::Step RunReader::read_text(const Characters& text) {
  std::size_t plain = 0;
  while (plain < text.size() && run_->passes(text[plain])) ++plain;
  if (plain == text.size() && unread_.empty()) return Step::whole;
  const std::u32string all = unread_and(text);
  if (!any_text_ && !std::ranges::all_of(all, is_ascii)) return Step::not_plain;
  piece_.clear();
  std::size_t at = 0;
  for (; at < all.size(); ++at) {
    const int which = run_->markers.match(Characters(all), at, false);
    if (which == Markers::kBegun) break;
    if (which != Markers::kNone || has(run_->stops, all[at])) return Step::not_plain;
    char32_t c = all[at];
    if (run_->escapes && c == '\\') {
      if (at + 1 == all.size()) break;
      c = escaped(all[++at]);
      if (c == 0) return Step::not_plain;
    }
    if (run_->quoted)
      append_quoted(piece_, c);
    else
      piece_.push_back(c);
  }
  width_ = at;
  unread_ = all.substr(at);
  return at == 0 ? Step::wait : Step::part;
}

RunReader::Step RunReader::read_name(const Characters& text) {
  const std::u32string all = unread_and(text);
  const Characters chars(all);
  std::size_t at = run_->markers.search(Characters(unread_), 0, false).at;
  for (; at < all.size(); ++at) {
    const int which = run_->markers.match(chars, at, false);
    if (which == Markers::kBegun) break;
    const bool lead = at == 0 && all[at] == ' ';
    if (which != Markers::kNone || (has(run_->stops, all[at]) && !lead)) return Step::not_plain;
  }
  return wait(text);
}

RunReader::Step RunReader::wait(const Characters& text) {
  for (std::size_t i = 0; i < text.size(); ++i) unread_.push_back(text[i]);
  return Step::wait;
}

bool RunReader::begins_marker(const Characters& text) const {
  return std::ranges::any_of(run_->markers.all(), [&](const std::u32string& marker) {
    if (unread_.size() + text.size() >= marker.size() || !marker.starts_with(unread_)) return false;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (marker[unread_.size() + i] != text[i]) return false;
    return true;
  });
}

std::u32string RunReader::unread_and(const Characters& text) const {
  std::u32string all = unread_;
  for (std::size_t i = 0; i < text.size(); ++i) all.push_back(text[i]);
  return all;
}

}  // namespace narrows
