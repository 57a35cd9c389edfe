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

void RunReader::arm(const Run* run, std::u32string unread, std::ptrdiff_t place) {
  run_ = run;
  unread_ = std::move(unread);
  place_ = place;
  name_.reset();
}

RunReader::Step RunReader::read(const Characters& text, bool ascii) {
  if (run_ == nullptr || text.size() == 0 || text.size() > longest_) return Step::not_plain;
  if (run_->kind == Run::Kind::json) {
    if (!unread_.empty() || !(ascii || any_text_) || !run_->scanner->reads_all(text)) return Step::not_plain;
    place_ += static_cast<std::ptrdiff_t>(text.size());
    return Step::whole;
  }
  if (run_->kind == Run::Kind::text && unread_.empty() && (ascii || any_text_)) {
    std::size_t plain = 0;
    while (plain < text.size() && run_->passes(text[plain])) ++plain;
    if (plain == text.size()) {
      place_ += static_cast<std::ptrdiff_t>(plain);
      return Step::whole;
    }
  }
  all_ = unread_;
  for (std::size_t i = 0; i < text.size(); ++i) all_.push_back(text[i]);
  at_ = 0;
  in_ = run_;
  named_ = name_;
  pieces_.clear();
  written_.clear();
  Progress progress = Progress::links;
  while (progress == Progress::links) progress = read_run();
  if (progress == Progress::fails) return Step::not_plain;
  const bool waits_on = at_ == 0 && in_ == run_;
  if (!any_text_ && !waits_on && !std::ranges::all_of(all_, is_ascii)) return Step::not_plain;
  unread_.assign(all_, at_);
  place_ += static_cast<std::ptrdiff_t>(at_);
  run_ = in_;
  name_ = std::move(named_);
  if (name_) {
    name_->begin -= static_cast<std::ptrdiff_t>(at_);
    name_->end -= static_cast<std::ptrdiff_t>(at_);
  }
  return Step::pieces;
}

RunReader::Progress RunReader::read_run() {
  switch (in_->kind) {
    case Run::Kind::text:
      return read_text();
    case Run::Kind::name:
      return read_name();
    case Run::Kind::marker:
      return read_marker();
    case Run::Kind::json:
      return Progress::fails;
  }
  return Progress::fails;
}

RunReader::Progress RunReader::read_text() {
  const Characters all(all_);
  const auto begin = static_cast<std::ptrdiff_t>(at_);
  int which = Markers::kNone;
  for (; at_ < all_.size(); ++at_) {
    char32_t c = all_[at_];
    if (in_->markers.may_begin_with(c)) {
      which = in_->markers.match(all, at_, false);
      if (which != Markers::kNone) break;
    }
    if (has(in_->stops, c)) return Progress::fails;
    if (in_->escapes && c == '\\') {
      if (at_ + 1 == all_.size()) break;
      c = escaped(all_[at_ + 1]);
      if (c == 0) return Progress::fails;
      ++at_;
    }
    if (in_->quoted)
      append_quoted(written_, c);
    else
      written_.push_back(c);
  }
  end_piece(begin, static_cast<std::ptrdiff_t>(at_));
  return which < 0 ? Progress::waits : follow_marker(which);
}

RunReader::NameFound RunReader::find_name(const Run& run, std::size_t at, std::size_t fresh) const {
  const std::u32string_view rest = std::u32string_view(all_).substr(at), lead = run.lead;
  if (rest.substr(0, lead.size()) != lead.substr(0, rest.size())) return {};
  for (std::size_t i = lead.size(); i < rest.size(); ++i) {
    if (i > kLongestName) return {};
    const int which = run.markers.match(Characters(all_), at + i, false);
    if (which == Markers::kBegun) break;
    if (which != Markers::kNone) return {Progress::links, which, rest.substr(lead.size(), i - lead.size())};
    const bool blank_before = i == lead.size() && rest[i] == ' ';
    if ((!is_ascii(rest[i]) && i >= fresh) || (has(run.stops, rest[i]) && !blank_before)) return {};
  }
  return {.progress = Progress::waits};
}

RunReader::Progress RunReader::read_name() {
  const NameFound found = find_name(*in_, at_, in_ == run_ ? unread_.size() : 0);  // from there on it is this delta's
  return found.progress == Progress::links ? follow_name(found) : found.progress;
}

std::optional<std::u32string> RunReader::key_of(const Run& run, std::size_t at, const NameFound& found) const {
  const auto which = static_cast<std::size_t>(found.which);
  const std::size_t before = run.lead.size() + (found.name.starts_with(U' ') ? 1 : 0);
  const std::size_t width = run.lead.size() + found.name.size() + run.markers.all()[which].size();
  if (run.links.empty() || width > kLongestName || !run.links[which].key) return std::nullopt;
  const auto place = place_ + static_cast<std::ptrdiff_t>(at + before);
  return run.links[which].key(found.name.substr(before - run.lead.size()), place);
}

RunReader::Progress RunReader::follow_name(const NameFound& found) {
  std::optional<std::u32string> written = key_of(*in_, at_, found);
  if (!written) return Progress::fails;
  std::u32string_view name = found.name;
  const auto end = static_cast<std::ptrdiff_t>(at_ + in_->lead.size() + name.size());
  if (name.starts_with(U' ')) name.remove_prefix(1);
  const auto size = static_cast<std::ptrdiff_t>(name.size());
  named_ = Name{std::u32string(name), std::move(*written), end - size, end};
  at_ = static_cast<std::size_t>(end);
  return follow_marker(found.which);
}

RunReader::Progress RunReader::look_ahead(const Run& run, std::size_t at) const {
  if (run.kind == Run::Kind::name) {
    const NameFound found = find_name(run, at, 0);
    return found.progress == Progress::links && !key_of(run, at, found) ? Progress::fails : found.progress;
  }
  const std::size_t begin = at;
  while (at < all_.size() && is_blank(all_[at])) ++at;
  if (at - begin > kLongestName) return Progress::fails;
  if (at == all_.size()) return Progress::waits;
  const int which = run.markers.match(Characters(all_), at, false);
  return which == Markers::kBegun ? Progress::waits : which == Markers::kNone ? Progress::fails : Progress::links;
}

RunReader::Progress RunReader::read_marker() {
  while (in_->whitespace_before && at_ < all_.size() && is_blank(all_[at_])) ++at_;
  if (at_ == all_.size()) return Progress::waits;
  const int which = in_->markers.match(Characters(all_), at_, false);
  if (which == Markers::kBegun) return Progress::waits;
  return which == Markers::kNone ? follow(in_->otherwise, 0) : follow_marker(which);
}

RunReader::Progress RunReader::follow_marker(int which) {
  if (in_->links.empty()) return Progress::fails;
  const Link& link = in_->links[static_cast<std::size_t>(which)];
  const std::size_t width = in_->markers.all()[static_cast<std::size_t>(which)].size();
  if (link.ahead != nullptr)
    if (const Progress ahead = look_ahead(*link.ahead, at_ + width); ahead != Progress::links) return ahead;
  return follow(link, width);
}

RunReader::Progress RunReader::follow(const Link& link, std::size_t width) {
  if (link.next == nullptr) return Progress::fails;
  if (link.written) {
    const auto place = static_cast<std::ptrdiff_t>(at_);
    if (named_) written_ += named_->written;
    written_ += *link.written;
    end_piece(named_ ? named_->begin : place, named_ ? named_->end : place);
    named_.reset();
  }
  at_ += width;
  in_ = link.next;
  return Progress::links;
}

void RunReader::end_piece(std::ptrdiff_t begin, std::ptrdiff_t end) {
  const std::size_t from = pieces_.empty() ? 0 : pieces_.back().text_end;
  if (written_.size() == from) return;
  if (pieces_.empty() || pieces_.back().end != begin) pieces_.push_back({from, begin, end});
  pieces_.back().text_end = written_.size();
  pieces_.back().end = end;
}

}  // namespace narrows
