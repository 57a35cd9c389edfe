// Threads that walk the same constraints say what one thread says alone, whichever of these constraints move apart in the meantime.
//
// Two grammars on one vocabulary: one has so little work that it mostly moves while its text is read, the other stays. The path is walked
// beforehand, with plenty of work and on a vocabulary of its own. Meant for ThreadSanitizer.
#include <memory>
#include <thread>

#include "fuzz/driver.hpp"
#include "fuzz/grammar.hpp"
#include "match/matcher.hpp"

namespace {

using namespace narrows;
using fuzz::Input;
using fuzz::require;

struct Path {
  std::vector<std::uint32_t> tokens;
  std::vector<std::vector<std::uint32_t>> masks;  // before each token, and at the end
};

Path walk_alone(const std::shared_ptr<Constraint>& constraint, Input& in) {
  Matcher matcher(constraint);
  Path path;
  std::vector<std::uint32_t> row(constraint->vocabulary().mask_words());
  for (int step = 0; step < 24; ++step) {
    matcher.fill_mask(row);
    path.masks.push_back(row);
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t t = 0; t < constraint->vocabulary().size(); ++t)
      if ((row[t >> 5] >> (t & 31)) & 1) allowed.push_back(t);
    if (allowed.empty()) return path;
    path.tokens.push_back(allowed[in.byte() % allowed.size()]);
    require(matcher.accept(path.tokens.back()), "an allowed token is accepted");
  }
  matcher.fill_mask(row);
  path.masks.push_back(row);
  return path;
}

// Where a limit is met there is nothing to compare.
void walk_beside_others(const std::shared_ptr<Constraint>& constraint, const Path& path) {
  std::vector<std::uint32_t> row(constraint->vocabulary().mask_words());
  try {
    Matcher matcher(constraint);
    for (std::size_t i = 0; i < path.masks.size(); ++i) {
      matcher.fill_mask(row);
      require(row == path.masks[i], "the mask is what it is without other threads");
      if (i == path.tokens.size()) break;
      require(matcher.accept(path.tokens[i]), "the token is accepted as without other threads");
      if (i % 5 == 4) {
        matcher.rollback(3);
        matcher.fill_mask(row);
        require(row == path.masks[i - 2], "the mask after a rollback is what it was");
        for (std::size_t k = i - 2; k <= i; ++k) require(matcher.accept(path.tokens[k]), "a token is accepted again");
      }
      static_cast<void>(constraint->bytes() + constraint->vocabulary().shared().bytes());
      if (i % 7 == 6) static_cast<void>(Matcher(matcher).is_accepting());
    }
  } catch (const Error& error) {
    require(error.code == "limit_reached", "only limits are met");
  }
}

void walk_together(Input& in) {
  Limits plenty;
  Limits little;
  little.step_work = 2'000 + 200 * in.byte();
  if (in.below(3) == 0) little.constraint_bytes = 20'000;
  Input again = in;
  const auto alone = fuzz::read_vocabulary(in), shared = fuzz::read_vocabulary(again);
  const Ir first = fuzz::read_ir(in, alone->size()), second = fuzz::read_ir(in, alone->size());
  const Path first_path = walk_alone(std::make_shared<Constraint>(alone, first, plenty), in);
  const Path second_path = walk_alone(std::make_shared<Constraint>(alone, second, plenty), in);
  const auto moves = std::make_shared<Constraint>(shared, first, little);
  const auto stays = std::make_shared<Constraint>(shared, second, plenty);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        walk_beside_others(i % 2 == 0 ? moves : stays, i % 2 == 0 ? first_path : second_path);
        walk_beside_others(i % 2 == 0 ? stays : moves, i % 2 == 0 ? second_path : first_path);
      }
    });
  threads.clear();  // joins
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  try {
    walk_together(in);
  } catch (const narrows::Error&) {
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) {
  return narrows::fuzz::drive(argc, argv, "random pairs of grammars walked by threads");
}
#endif
