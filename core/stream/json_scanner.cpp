#include "stream/json_scanner.hpp"

namespace narrows {
namespace {

bool digit(char32_t c) { return c >= '0' && c <= '9'; }
bool hex(char32_t c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

std::size_t JsonScanner::scan(const Characters& text, std::size_t pos) {
  if (peeked_ > 0) {
    pos += peeked_;
    peeked_ = 0;
    return pos;
  }
  for (; pos < text.size() && !stopped(); ++pos) {
    const char32_t c = text[pos];
    if (state_ == State::string && c != '"' && c != '\\') {
      if (c < ' ') flawed("a control character inside a string");
      continue;
    }
    if (!take(c)) break;
  }
  return pos;
}

bool JsonScanner::reads_all(const Characters& text) {
  const std::size_t read = scan(text, 0);
  if (!stopped()) return true;
  peeked_ = read;
  return false;
}

void JsonScanner::end_of_text() {
  if (stopped()) return;
  if (state_ == State::number && objects_.empty()) take_in_number(' ');
  if (!done_) fault_ = "the text ends inside a JSON value";
}

bool JsonScanner::take(char32_t c) {
  switch (state_) {
    case State::string:
      if (c == '\\')
        state_ = State::escape;
      else if (key_)
        state_ = State::colon;
      else
        ended();
      return true;
    case State::escape:
      state_ = State::string;
      if (c == 'u') {
        state_ = State::hex;
        hex_left_ = 4;
      } else if (c >= 0x80 || std::string_view("\"\\/bfnrt").find(static_cast<char>(c)) == std::string_view::npos) {
        flawed("an unknown escape inside a string");
      }
      return true;
    case State::hex:
      if (hex(c)) {
        if (--hex_left_ == 0) state_ = State::string;
        return true;
      }
      flawed("an unknown escape inside a string");
      state_ = State::string;
      if (c == '"' || c == '\\') return take(c);
      if (c < ' ') flawed("a control character inside a string");
      return true;
    case State::number:
      return take_in_number(c);
    case State::word:
      if (c != static_cast<char32_t>(*word_left_)) return fail("a word that is not JSON");
      if (*++word_left_ == '\0') ended();
      return true;
    default:
      return is_blank(c) || take_structure(c);
  }
}

bool JsonScanner::take_in_number(char32_t c) {
  const auto to = [&](Number next) {
    number_ = next;
    return true;
  };
  switch (number_) {
    case Number::minus:
      if (digit(c)) return to(c == '0' ? Number::zero : Number::integer);
      break;
    case Number::zero:
    case Number::integer:
      if (digit(c) && number_ == Number::integer) return true;
      if (c == '.') return to(Number::point);
      if (c == 'e' || c == 'E') return to(Number::e);
      break;
    case Number::point:
      if (digit(c)) return to(Number::fraction);
      break;
    case Number::fraction:
      if (digit(c)) return true;
      if (c == 'e' || c == 'E') return to(Number::e);
      break;
    case Number::e:
      if (c == '+' || c == '-') return to(Number::e_sign);
      [[fallthrough]];
    case Number::e_sign:
    case Number::exponent:
      if (digit(c)) return to(Number::exponent);
      break;
  }
  const bool whole = number_ == Number::zero || number_ == Number::integer || number_ == Number::fraction ||
                     number_ == Number::exponent;
  if (!whole) return fail("a number that is not JSON");
  ended();
  return !done_ && take(c);
}

bool JsonScanner::take_structure(char32_t c) {
  const auto close = [&] {
    objects_.pop_back();
    ended();
    return true;
  };
  switch (state_) {
    case State::comma_or_close:
      if (c == ',') {
        state_ = objects_.back() ? State::key : State::value;
        return true;
      }
      if (c == (objects_.back() ? U'}' : U']')) return close();
      return fail("a comma or a closing bracket is missing");
    case State::colon:
      if (c != ':') return fail("a colon is missing after a property name");
      state_ = State::value;
      return true;
    case State::key:
    case State::key_or_close:
      if (c == '"') {
        key_ = true;
        state_ = State::string;
        return true;
      }
      if (c == '}' && state_ == State::key_or_close) return close();
      return fail("a property name in double quotes is missing");
    case State::item_or_close:
      if (c == ']') return close();
      [[fallthrough]];
    default:
      return take_value(c);
  }
}

bool JsonScanner::take_value(char32_t c) {
  if (kind_ == 0) kind_ = c;
  const auto word = [&](const char* rest) {
    word_left_ = rest;
    state_ = State::word;
    return true;
  };
  switch (c) {
    case '"':
      key_ = false;
      state_ = State::string;
      return true;
    case '{':
    case '[':
      if (objects_.size() >= max_depth_) return fail("nested too deeply [limit stream_depth]");
      objects_.push_back(c == '{');
      state_ = c == '{' ? State::key_or_close : State::item_or_close;
      return true;
    case 't':
      return word("rue");
    case 'f':
      return word("alse");
    case 'n':
      return word("ull");
    default:
      if (c != '-' && !digit(c)) return fail("no JSON value where one is expected");
      number_ = c == '-' ? Number::minus : c == '0' ? Number::zero : Number::integer;
      state_ = State::number;
      return true;
  }
}

}  // namespace narrows
