// A validating JSON scanner (RFC 8259) that is fed in pieces and finds where one value ends.
//
// It keeps no text: it only says how far the value reaches and whether it is JSON. Cost: about 1 ns per character,
// and one bit of memory per open bracket, at most `max_depth`.
//
// It distinguishes two kinds of errors. A flaw (a raw control character or an unknown escape inside a string) leaves
// the structure readable: scanning goes on. A fault (anything else) stops the scan at the offending character.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stream/characters.hpp"

namespace narrows {

class JsonScanner {
 public:
  explicit JsonScanner(std::size_t max_depth) : max_depth_(max_depth) {}

  // Reads from `pos` to the end of the text or of the value; returns how far.
  std::size_t scan(const Characters& text, std::size_t pos);
  // Whether the whole text lies inside the value. If not, the same text is to be given to `scan` next, which answers
  // what is known.
  bool reads_all(const Characters& text);
  // Nothing follows: a number outside any bracket is complete now; anything else that is open is a fault.
  void end_of_text();

  bool done() const { return done_; }
  bool stopped() const { return done_ || !fault_.empty(); }
  const std::string& fault() const { return fault_; }
  const std::string& flaw() const { return flaw_; }
  void set_fault(std::string fault) { fault_ = std::move(fault); }
  // The value's first character; 0 before that.
  char32_t kind() const { return kind_; }
  // The text so far ends inside a string.
  bool in_string() const { return state_ == State::string || state_ == State::escape || state_ == State::hex; }

 private:
  enum class State {
    value,
    item_or_close,
    key_or_close,
    key,
    colon,
    comma_or_close,
    string,
    escape,
    hex,
    number,
    word
  };
  enum class Number { minus, zero, integer, point, fraction, e, e_sign, exponent };

  // Each takes the character, or says by false that it has not (and why, unless the value ended before it).
  bool take(char32_t c);
  bool take_in_number(char32_t c);
  bool take_structure(char32_t c);
  bool take_value(char32_t c);
  bool fail(const char* fault) {
    fault_ = fault;
    return false;
  }
  void flawed(const char* flaw) {
    if (flaw_.empty()) flaw_ = flaw;
  }
  // A value has ended.
  void ended() {
    state_ = State::comma_or_close;
    done_ = objects_.empty();
  }

  std::size_t max_depth_;
  std::vector<bool> objects_;  // one entry per open bracket: true for an object
  State state_ = State::value;
  Number number_ = Number::zero;
  bool key_ = false;  // the string being read is a property's name
  bool done_ = false;
  int hex_left_ = 0;
  const char* word_left_ = "";
  char32_t kind_ = 0;
  std::size_t peeked_ = 0;
  std::string flaw_;
  std::string fault_;
};

}  // namespace narrows
