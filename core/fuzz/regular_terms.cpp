// Random regular terms, and questions about them whose answers must agree:
//   - a text matches a term or its complement, and an intersection exactly if it matches all its parts;
//   - a term that is never matched matches no text;
//   - the texts that are listed are all that match, up to a length.
#include <array>
#include <memory>
#include <string>

#include "automata/regular.hpp"
#include "fuzz/driver.hpp"

namespace {

using namespace narrows;
using fuzz::Input;
using fuzz::require;

constexpr std::size_t kLongest = 3;

TermId made(Regular& regular, Input& in, const std::vector<TermId>& known) {
  Terms& terms = regular.terms();
  const auto some = [&] { return known[in.byte() % known.size()]; };
  switch (in.below(9)) {
    case 0: {
      ByteSet bytes;
      for (unsigned n = in.below(3); n > 0; --n) bytes.add(static_cast<std::uint8_t>('a' + in.below(3)));
      return terms.set(bytes);
    }
    case 1: {
      const std::string texts = "abcab";
      const std::vector<std::uint8_t> bytes(texts.begin(), texts.end());
      return terms.literals(bytes, std::array<std::uint64_t, 4>{0, in.below(2), 2 + in.below(2), 5});
    }
    case 2:
      return terms.cat(some(), some());
    case 3:
      return terms.alt(std::array{some(), some(), some()});
    case 4:
      return terms.both(std::array{some(), some()});
    case 5:
      return terms.complement(some());
    case 6: {
      std::vector<std::uint8_t> bytes;
      for (unsigned n = in.below(10); n > 0; --n)
        bytes.push_back(std::array<std::uint8_t, 8>{'a', 'b', 'c', 'a', 'b', 0xff, 0xfe, 0xff}[in.below(8)]);
      return terms.substrings(std::make_shared<const Suffixes>(bytes, static_cast<Unit>(in.below(2))));
    }
    default: {
      const std::uint32_t least = in.below(4);
      return terms.repeat(some(), least, in.below(3) == 0 ? kNoMax : least + in.below(4));
    }
  }
}

std::vector<std::string> all_texts() {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < kLongest)
      for (char letter : {'a', 'b', 'c'}) texts.push_back(texts[i] + letter);
  return texts;
}

void ask(Input& in) {
  static const std::vector<std::string> every = all_texts();
  Regular regular(in.below(4) == 0 ? 40'000 : 4'000'000, 100);
  std::vector<TermId> known{kNever, kEmpty, kAll};
  Work work{in.below(4) == 0 ? 20'000u : 2'000'000u};
  ByteSet letters;
  for (char letter : {'a', 'b', 'c'}) letters.add(static_cast<std::uint8_t>(letter));
  const TermId near = regular.terms().repeat(regular.terms().set(letters), 0, kLongest);
  while (!in.empty() && known.size() < 60) known.push_back(made(regular, in, known));
  for (TermId term : known) {
    std::vector<std::string> expected;
    const TermId complement = regular.terms().complement(term);
    for (const std::string& text : every) {
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      const bool matches = regular.matches(term, bytes, work);
      require(matches != regular.matches(complement, bytes, work), "a text matches a term or its complement");
      if (matches) expected.push_back(text);
    }
    require(expected.empty() || !regular.is_never(term, work), "what matches nothing matches no text");
    const TermId few = regular.terms().both(std::array{term, near});
    require(regular.is_never(few, work) == expected.empty(), "an intersection matches what all its parts match");
    const auto listed = regular.texts(few, every.size(), work);
    require(listed.has_value() && *listed == expected, "all texts are listed");
    if (!expected.empty()) require(!regular.texts(few, expected.size() - 1, work), "no more than asked are listed");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  try {
    ask(in);
  } catch (const narrows::Error& error) {
    require(error.code == "limit_reached", "only limits are met");
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) { return narrows::fuzz::drive(argc, argv, "random terms asked about"); }
#endif
