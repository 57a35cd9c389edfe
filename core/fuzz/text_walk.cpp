// Strings as JSON has them, with patterns and lengths, over hundreds of words: what the random grammars of ir_walk are
// too small for, such as counted characters, and records that are made beside others.
//   - A token is in the mask exactly if the document can still end after it. The judge of that takes the document as
//     one term and derives it byte by byte, with no vocabulary.
//   - A token is in the mask exactly when it is accepted.
//   - All that holds on a vocabulary that others like it have used, too: what is known of their terms must not show.
#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "automata/regular.hpp"
#include "fuzz/random_ir.hpp"

namespace {

using namespace narrows;
using fuzz::has;
using fuzz::Input;
using fuzz::require;

// The same language twice: as a node of the intermediate form, and as a term of the judge.
struct Part {
  std::uint32_t node;
  TermId term;
};

class Writer {
 public:
  explicit Writer(Terms& terms) : terms_(terms) {
    ir_.child_offsets = {0};
    ir_.string_offsets = {0};
  }

  Part set(const ByteSet& bytes) {
    std::array<std::uint8_t, 32> bits{};
    bytes.for_each([&](std::uint8_t b) { bits[b >> 3] |= static_cast<std::uint8_t>(1u << (b & 7)); });
    return {add(NodeKind::set, {}, string(bits)), terms_.set(bytes)};
  }
  Part range(int from, int to) {
    ByteSet bytes;
    for (int b = from; b <= to; ++b) bytes.add(static_cast<std::uint8_t>(b));
    return set(bytes);
  }
  Part text(std::string_view text) { return literals({std::string(text)}); }
  Part literals(const std::vector<std::string>& texts) {
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint64_t> offsets{0};
    const auto first = static_cast<std::uint32_t>(ir_.string_offsets.size() - 1);
    for (const std::string& one : texts) {
      bytes.insert(bytes.end(), one.begin(), one.end());
      offsets.push_back(bytes.size());
      string(std::vector<std::uint8_t>(one.begin(), one.end()));
    }
    const auto count = static_cast<std::uint32_t>(texts.size());
    return {add(NodeKind::literals, {}, first, count), terms_.literals(bytes, offsets)};
  }
  Part seq(const std::vector<Part>& parts) {
    TermId term = kEmpty;
    for (std::size_t i = parts.size(); i > 0; --i) term = terms_.cat(parts[i - 1].term, term);
    return {add(NodeKind::seq, parts), term};
  }
  Part alt(const std::vector<Part>& parts) { return {add(NodeKind::alt, parts), terms_.alt(terms_of(parts))}; }
  Part both(const std::vector<Part>& parts) { return {add(NodeKind::both, parts), terms_.both(terms_of(parts))}; }
  Part complement(Part part) { return {add(NodeKind::complement, {part}), terms_.complement(part.term)}; }
  Part repeat(Part part, std::uint32_t least, std::uint32_t most) {
    return {add(NodeKind::repeat, {part}, least, most), terms_.repeat(part.term, least, most)};
  }
  Part lexeme(Part part) { return {add(NodeKind::lexeme, {part}), part.term}; }

  Ir finish(Part document) {
    ir_.rules = {document.node};
    ir_.rule_names = {"document"};
    return std::move(ir_);
  }

 private:
  std::uint32_t string(std::span<const std::uint8_t> bytes) {
    ir_.string_bytes.insert(ir_.string_bytes.end(), bytes.begin(), bytes.end());
    ir_.string_offsets.push_back(static_cast<std::uint32_t>(ir_.string_bytes.size()));
    return static_cast<std::uint32_t>(ir_.string_offsets.size() - 2);
  }
  std::uint32_t add(NodeKind kind, const std::vector<Part>& parts, std::uint32_t a = 0, std::uint32_t b = 0) {
    for (const Part& part : parts) ir_.children.push_back(part.node);
    ir_.kinds.push_back(static_cast<std::uint8_t>(kind));
    ir_.a.push_back(a);
    ir_.b.push_back(b);
    ir_.child_offsets.push_back(static_cast<std::uint32_t>(ir_.children.size()));
    return static_cast<std::uint32_t>(ir_.size() - 1);
  }
  static std::vector<TermId> terms_of(const std::vector<Part>& parts) {
    std::vector<TermId> terms;
    for (const Part& part : parts) terms.push_back(part.term);
    return terms;
  }

  Terms& terms_;
  Ir ir_;
};

// Reads random bytes as a document: an array of a few strings, or one string.
class Reader {
 public:
  Reader(Writer& write, Input& in) : write_(write), in_(in) {}

  Part document() {
    character_ = character();
    const std::uint32_t count = 1 + in_.below(3);
    const bool is_whole = in_.below(4) == 0;  // one terminal for all
    std::vector<Part> parts;
    for (std::uint32_t i = 0; i < count; ++i) {
      parts.push_back(write_.text(i == 0 ? "[" : ","));
      if (in_.below(3) == 0) parts.push_back(write_.repeat(write_.text(" "), 0, in_.below(2) == 0 ? kNoMax : 2));
      const Part string = write_.seq({write_.text("\""), text(), write_.text("\"")});
      parts.push_back(is_whole || in_.below(4) == 0 ? string : write_.lexeme(string));
    }
    parts.push_back(write_.text("]"));
    const Part all = write_.seq(parts);
    return is_whole ? write_.lexeme(all) : all;
  }

 private:
  // Any character, but for some that a schema may leave out.
  Part character() {
    ByteSet plain;
    for (int b = 0x20; b < 0x80; ++b) plain.add(static_cast<std::uint8_t>(b));
    plain.remove('"');
    plain.remove('\\');
    if (in_.below(4) == 0) plain.remove(static_cast<std::uint8_t>("abc ,"[in_.below(5)]));
    std::vector<Part> ways{write_.set(plain)};
    if (in_.below(4) != 0) ways.push_back(write_.seq({write_.text("\\"), write_.literals({"\"", "\\", "n", "u00e9"})}));
    if (in_.below(4) != 0) ways.push_back(write_.seq({write_.range(0xc2, 0xdf), write_.range(0x80, 0xbf)}));
    return ways.size() == 1 ? ways[0] : write_.alt(ways);
  }

  Part any() { return write_.repeat(character_, 0, kNoMax); }
  Part counted() {
    const std::uint32_t least = in_.below(2) == 0 ? 0 : in_.below(8);
    static constexpr std::array<std::uint32_t, 4> kSpans{0, 8, 40, 200};
    const std::uint32_t most = in_.below(5) == 0 ? kNoMax : least + in_.below(1 + kSpans[in_.below(4)]);
    return write_.repeat(character_, least, most);
  }

  Part letters() {
    switch (in_.below(6)) {
      case 0:
        return write_.range('a', 'a' + static_cast<int>(in_.below(26)));
      case 1:
        return write_.text(std::array{"a", "ab", "abc", ",", "ca", "-", "\\n", "\xc3\xa9"}[in_.below(8)]);
      case 2:
        return write_.literals({"abc", "ab", "cab", "b"});
      case 3:
        return write_.set(ByteSet::all() & [&] {
          ByteSet others;
          for (int b = 0x20; b < 0x7f; ++b) others.add(static_cast<std::uint8_t>(b));
          for (char c : {'"', '\\', "abc,"[in_.below(4)]}) others.remove(static_cast<std::uint8_t>(c));
          return others;
        }());
      case 4:
        return character_;
      default:
        return write_.range('0', '9');
    }
  }

  Part pattern(int depth) {
    if (depth == 0) return letters();
    switch (in_.below(6)) {
      case 0:
      case 1:
        return write_.seq({pattern(depth - 1), pattern(depth - 1)});
      case 2:
        return write_.alt({pattern(depth - 1), pattern(depth - 1)});
      case 3:
      case 4: {
        const std::uint32_t least = in_.below(4);
        static constexpr std::array<std::uint32_t, 5> kMosts{1, 4, 12, 60, 0};
        const std::uint32_t more = kMosts[in_.below(5)];
        return write_.repeat(pattern(depth - 1), least, more == 0 ? kNoMax : least + more);
      }
      default:
        return letters();
    }
  }

  // A pattern as a schema has them: found anywhere, or at the beginning, the end or both.
  Part found() {
    const Part found = pattern(1 + static_cast<int>(in_.below(3)));
    switch (in_.below(5)) {
      case 0:
        return found;
      case 1:
        return write_.seq({found, any()});
      case 2:
        return write_.seq({any(), found});
      default:
        return write_.seq({any(), found, any()});
    }
  }

  // A loop that looks ahead: after a first text comes what does not begin with it, or a second one. Each round holds the
  // one before it twice.
  Part rounds() {
    const Part first = letters(), second = letters();
    const Part ahead = write_.complement(write_.seq({first, write_.complement(write_.alt({}))}));
    Part rest = write_.alt({first, second});
    for (std::uint32_t n = in_.below(50); n > 0; --n)
      rest = write_.alt({write_.seq({first, write_.both({rest, ahead})}), write_.seq({second, rest})});
    return rest;
  }

  Part text() {
    switch (in_.below(10)) {
      case 0:
        return any();
      case 1:
        return counted();
      case 2:
        return write_.both({found(), any()});
      case 3:
        return write_.both({any(), write_.complement(write_.literals({"abc", "ab", "cab", "b"}))});
      case 4:
        return write_.both({counted(), write_.complement(found())});
      case 5:
        return write_.both({found(), found(), any()});
      case 6:
        return write_.both({found(), found(), counted()});
      case 7:
        return in_.below(2) == 0 ? rounds() : write_.both({rounds(), counted()});
      default:
        return write_.both({found(), counted()});
    }
  }

  Writer& write_;
  Input& in_;
  Part character_{};
};

// Words of letters, marks and characters of two bytes; all single bytes that these have come first.
fuzz::Words read_long_words(Input& in) {
  fuzz::Words words;
  static constexpr std::string_view kLetters = "aaaabbbccn0u9 ,,-\"\"\\[]z\xc3\xc3\xa9\xa9";
  std::mt19937_64 random(in.byte());
  const std::uint32_t count = 30 + 3 * in.byte();
  const auto add = [&](std::string_view word) {
    words.bytes.insert(words.bytes.end(), word.begin(), word.end());
    words.offsets.push_back(words.bytes.size());
  };
  for (std::size_t i = 0; i < kLetters.size(); ++i)
    if (kLetters.find(kLetters[i]) == i) add(kLetters.substr(i, 1));
  while (words.offsets.size() <= count) {
    std::string word;
    for (std::uint64_t n = 1 + random() % (random() % 8 == 0 ? 16 : 5); n > 0; --n)
      word += kLetters[random() % kLetters.size()];
    add(word);
  }
  add("");
  words.size = static_cast<std::uint32_t>(words.offsets.size() - 1);
  words.end_tokens = {words.size - 1};
  return words;
}

std::span<const std::uint8_t> bytes_of(const fuzz::Words& words, std::uint32_t token) {
  return std::span(words.bytes).subspan(words.offsets[token], words.offsets[token + 1] - words.offsets[token]);
}

// The document as one term, derived by the bytes that are read.
class Judge {
 public:
  Judge() : regular_(fuzz::kPlentyOfBytes, fuzz::kPlenty.term_depth) {}
  Terms& terms() { return regular_.terms(); }
  void begin(TermId document) { at_ = document; }
  bool may_end() { return terms()[at_].nullable; }
  TermId after(std::span<const std::uint8_t> bytes, Work& work) {
    TermId at = at_;
    for (std::size_t i = 0; i < bytes.size() && at != kNever; ++i) {
      TermId next = steps_.find(at, bytes[i]);
      if (next == kNone) {
        ByteSet same = ByteSet::all();
        next = terms().derivative(at, bytes[i], same, work);
        steps_.insert(at, bytes[i], next);
      }
      at = next;
    }
    return at;
  }
  // The bytes that must come next: as long as there is one way to go on, and the text cannot end.
  std::vector<std::uint8_t> forced(std::size_t at_most, Work& work) {
    std::vector<std::uint8_t> found;
    while (found.size() < at_most && !terms()[after(found, work)].nullable) {
      ByteSet next;
      found.push_back(0);
      for (int b = 0; b < 256 && next.count() < 2; ++b) {
        found.back() = static_cast<std::uint8_t>(b);
        if (allows(found, work)) next.add(found.back());
      }
      found.pop_back();
      if (next.count() != 1) break;
      found.push_back(next.first());
    }
    return found;
  }
  bool allows(std::span<const std::uint8_t> bytes, Work& work) { return !regular_.is_never(after(bytes, work), work); }
  void accept(std::span<const std::uint8_t> bytes, Work& work) { at_ = after(bytes, work); }

 private:
  Regular regular_;
  StepMap steps_;
  TermId at_ = kEmpty;
};

Limits limits() {
  Limits limits = fuzz::kPlenty;
  limits.step_work = 3'000'000;
  limits.live_items = 512;
  limits.states = 100'000;
  return limits;
}

// A token of the mask; kNone where it has none but the end.
std::uint32_t some_token(const std::vector<std::uint32_t>& row, const fuzz::Words& words, Input& in) {
  const std::uint32_t high = in.byte(), from = (256 * high + in.byte()) % words.size;
  for (std::uint32_t i = 0; i < words.size; ++i)
    if (const std::uint32_t t = (from + i) % words.size; has(row, t) && t != words.end_tokens[0]) return t;
  return kNone;
}

// Nearly the same document, with other patterns and lengths.
void use(const std::shared_ptr<Vocabulary>& vocabulary, const fuzz::Words& words, const Input& in, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<std::uint8_t> data = in.nearly(random);
  Input changed(data.data(), data.size());
  try {
    Judge judge;
    Writer write(judge.terms());
    const Part document = Reader(write, changed).document();
    Matcher matcher(std::make_shared<Constraint>(vocabulary, write.finish(document), limits()));
    std::vector<std::uint32_t> row(vocabulary->mask_words());
    for (int step = 0; step < 10; ++step) {
      matcher.fill_mask(row);
      const std::uint32_t token = some_token(row, words, changed);
      if (token == kNone || !matcher.accept(token)) break;
    }
  } catch (const Error& error) {
    require(error.code == "limit_reached" || error.code == "unsatisfiable", error.what());
  }
}

// What else can be asked at a place.
void ask_more(Matcher& matcher, Judge& judge, const fuzz::Words& words, Input& in, Work& work) {
  require(matcher.is_accepting() == judge.may_end(), "the text is whole where the judge says so");
  require(matcher.forced_bytes(12) == judge.forced(12, work), "forced bytes are those that alone may come");
  std::vector<std::uint8_t> end;
  for (const Completion& part : matcher.shortest_end()) end.insert(end.end(), part.bytes.begin(), part.bytes.end());
  require(judge.terms()[judge.after(end, work)].nullable, "a shortest end ends the text");
  // The tokens that spell the bytes before this place again, or begin to, and then go on.
  const auto before = bytes_of(words, in.below(words.size - 1));
  std::vector<std::uint32_t> row((words.size + 31) / 32);
  matcher.fill_healing_mask(before, row);
  for (std::uint32_t t = 0; t < words.size - 1; ++t) {
    const auto word = bytes_of(words, t);
    const std::size_t same = std::min(word.size(), before.size());
    const bool spells = std::equal(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(same), before.begin());
    require(has(row, t) == (spells && judge.allows(word.subspan(same), work)),
            "a healing mask has what spells the end");
  }
}

void walk(Input& in) {
  const fuzz::Words words = read_long_words(in);
  const auto vocabulary = words.vocabulary(in.below(4) == 0 ? 60'000 : fuzz::kPlentyOfBytes);
  const std::uint32_t others = in.below(4);
  const std::uint64_t seed = in.byte();
  for (std::uint32_t i = 0; i < others; ++i) use(vocabulary, words, in, 256 * seed + i);
  Judge judge;
  Writer write(judge.terms());
  const Part document = Reader(write, in).document();
  judge.begin(document.term);
  Work work{100'000'000};
  const bool is_never = !judge.allows({}, work);
  std::shared_ptr<Constraint> constraint;
  try {
    constraint = std::make_shared<Constraint>(vocabulary, write.finish(document), limits());
  } catch (const Error& error) {
    require(error.code == "limit_reached" || (is_never && error.code == "unsatisfiable"), error.what());
    return;
  }
  require(!is_never, "a grammar without a text is refused");
  Matcher matcher(constraint);
  std::vector<std::uint32_t> row(vocabulary->mask_words());
  for (int step = 0; step < 16; ++step) {
    matcher.fill_mask(row);
    Matcher probe(matcher);
    for (std::uint32_t t = 0; t < words.size; ++t) {
      const bool right = t == words.end_tokens[0] ? judge.may_end() : judge.allows(bytes_of(words, t), work);
      require(has(row, t) == right, "a token is in the mask exactly if the document can end after it");
      require(probe.accept(t) == right, "a token is accepted exactly if the document can end after it");
      if (right) probe.rollback(1);
    }
    if (in.below(4) == 0) ask_more(probe, judge, words, in, work);
    const std::uint32_t token = some_token(row, words, in);
    if (token == kNone) break;
    require(matcher.accept(token), "an allowed token is accepted");
    judge.accept(bytes_of(words, token), work);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  try {
    walk(in);
  } catch (const narrows::Error& error) {
    require(error.code == "limit_reached", error.what());
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) { return narrows::fuzz::drive(argc, argv, "random texts walked"); }
#endif
