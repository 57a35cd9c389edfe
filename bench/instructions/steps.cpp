// The steps whose instructions instructions.py counts: `steps FILE SCENARIO`. Only what `measured` calls is counted.
//
// FILE is written by instructions.py: a vocabulary, and per grammar its arrays and the tokens of a text. Prints how often the
// scenario did its step.
#include <cstdio>
#include <functional>
#include <string>

#include "fuzz/array_file.hpp"
#include "fuzz/random_ir.hpp"
#include "match/matcher.hpp"

namespace {

using namespace narrows;
using Row = std::vector<std::uint32_t>;

struct Definition {
  Ir ir;
  std::vector<std::uint32_t> text;
};

struct World {
  std::shared_ptr<Vocabulary> vocabulary;
  std::vector<Definition> definitions;
};

World read(const std::string& path) {
  fuzz::ArrayFile file(path);
  World world;
  auto bytes = file.array<std::uint8_t>();
  auto offsets = file.array<std::uint64_t>();
  auto ends = file.array<std::uint32_t>();
  const auto numbers = file.array<std::uint32_t>();  // width of the masks, how many definitions
  world.vocabulary = std::make_shared<Vocabulary>(std::move(bytes), std::move(offsets), std::move(ends), numbers[0],
                                                  fuzz::kPlentyOfBytes);
  for (std::uint32_t i = 0; i < numbers[1]; ++i) {
    Definition one{file.ir(), {}};
    one.text = file.array<std::uint32_t>();
    world.definitions.push_back(std::move(one));
  }
  return world;
}

void walk(Matcher& matcher, const std::vector<std::uint32_t>& text, Row& row) {
  for (const std::uint32_t token : text) {
    matcher.fill_mask(row);
    fuzz::require(matcher.accept(token), "the text fits");
  }
}

}  // namespace

extern "C" __attribute__((noinline)) void measured(const std::function<void()>& step) { step(); }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const World world = read(argv[1]);
  const std::string scenario = argv[2];
  // The definitions: an array of plain strings, one of counted strings, an object like a tool's arguments, one whose
  // keys have a pattern.
  const Definition& chosen = world.definitions.at(scenario.ends_with("plain_string")      ? 0
                                                  : scenario.ends_with("counted_string")  ? 1
                                                  : scenario.ends_with("keys_by_pattern") ? 3
                                                                                          : 2);
  Row row(world.vocabulary->mask_words());
  std::size_t times = 1;
  const auto constraint = [&] { return std::make_shared<Constraint>(world.vocabulary, chosen.ir, fuzz::kPlenty); };
  if (scenario.starts_with("known_")) {
    Matcher matcher(constraint());
    walk(matcher, chosen.text, row);
    if (scenario == "known_mask") {
      times = 1000;
      measured([&] {
        for (std::size_t i = 0; i < times; ++i) matcher.fill_mask(row);
      });
    } else {
      times = chosen.text.size();
      matcher.reset();
      measured([&] {
        for (const std::uint32_t token : chosen.text) fuzz::require(matcher.accept(token), "the text fits");
      });
    }
  } else if (scenario.starts_with("first_text")) {
    measured([&] {
      Matcher matcher(constraint());
      walk(matcher, chosen.text, row);
    });
  } else {  // first_mask_*
    Matcher matcher(constraint());
    for (const std::uint32_t token : chosen.text) fuzz::require(matcher.accept(token), "the text fits");
    measured([&] { matcher.fill_mask(row); });
  }
  std::printf("%zu\n", times);
}
