// Several threads use one vocabulary for random calls: masks, steps, rollbacks, forks, drafts, explanations and
// compilations. The caches have room for everything, or so little that they are dropped again and again.
//   - A thread gets the same results as it would get alone: one thread with plenty of room computes its masks again.
//   - A matcher that several threads use at once refuses with concurrent_use, and goes on.
//   - What is known is read while another thread has its turn.
// ThreadSanitizer sees the rest. With a file (written by sanitize.py), a real vocabulary and real grammars instead of
// random ones.
#include <map>
#include <string>
#include <thread>

#include "fuzz/array_file.hpp"
#include "fuzz/random_ir.hpp"

namespace {

using namespace narrows;
using fuzz::has;
using fuzz::Input;
using fuzz::require;

constexpr int kThreads = 4;
constexpr std::size_t kMatchers = 4;  // of each thread

struct World {
  fuzz::Words words;
  std::vector<Ir> grammars;
  std::uint64_t shared_bytes = fuzz::kPlentyOfBytes;
  Limits limits = fuzz::kPlenty;
  int actions = 40;  // of each thread
};

struct Step {
  std::uint32_t token;  // kNone for bytes
  std::vector<std::uint8_t> bytes;
};

struct Seen {
  std::size_t grammar;
  std::vector<Step> steps;
  std::vector<std::uint32_t> mask;
  bool accepting;
};

struct Sequence {
  std::size_t grammar;
  std::unique_ptr<Matcher> matcher;
  std::vector<Step> steps;
};

// Whether the error says that a limit was met; any other is a bug.
bool is_limit(const Error& error) {
  require(error.code == "limit_reached", error.what());
  return true;
}

class Player {
 public:
  Player(const World& world, std::shared_ptr<Vocabulary> vocabulary,
         std::vector<std::shared_ptr<Constraint>> constraints, Matcher& common, std::uint64_t seed)
      : world_(world),
        vocabulary_(std::move(vocabulary)),
        constraints_(std::move(constraints)),
        common_(common),
        random_(seed),
        row_(vocabulary_->mask_words()) {}

  void play() {
    for (int i = 0; i < world_.actions; ++i) {
      try {
        if (sequences_.empty()) begin();
        act(sequences_[below(sequences_.size())]);
      } catch (const Error& error) {
        is_limit(error);
      }
    }
  }

  const std::vector<Seen>& seen() const { return seen_; }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void begin() {
    if (sequences_.size() == kMatchers) sequences_.erase(sequences_.begin());
    const std::size_t grammar = below(constraints_.size());
    sequences_.push_back({grammar, std::make_unique<Matcher>(constraints_[grammar]), {}});
  }

  void act(Sequence& on) {
    Matcher& matcher = *on.matcher;
    switch (below(16)) {
      case 0:
        begin();
        break;
      case 1: {
        Sequence fork{on.grammar, std::make_unique<Matcher>(matcher), on.steps};
        if (sequences_.size() == kMatchers) sequences_.erase(sequences_.begin());
        sequences_.push_back(std::move(fork));
        break;
      }
      case 2: {  // the same grammar compiled again: the old constraint lives on in others' hands
        const std::size_t grammar = below(constraints_.size());
        constraints_[grammar] = std::make_shared<Constraint>(vocabulary_, world_.grammars[grammar], world_.limits);
        break;
      }
      case 3: {
        const std::size_t count = below(on.steps.size() + 1);
        matcher.rollback(count);
        on.steps.resize(on.steps.size() - count);
        break;
      }
      case 4: {
        const std::vector<std::uint8_t> bytes = some_bytes();
        if (matcher.accept_bytes(bytes)) on.steps.push_back({kNone, bytes});
        break;
      }
      case 5: {
        try {
          (void)matcher.shortest_end();
        } catch (const Error& error) {  // by the longest match, there may be none
          if (error.code != "no_shortest_end") throw;
        }
        (void)matcher.forced_bytes(100);
        (void)matcher.forced_tokens(10);
        break;
      }
      case 6: {
        const std::uint32_t token = static_cast<std::uint32_t>(below(world_.words.size));
        const bool allowed = matcher.explain(token).allowed;
        require(matcher.accepts(std::vector{token}) == (allowed ? 1u : 0u), "what is explained is what is accepted");
        break;
      }
      case 7:
        use_common();
        break;
      case 8:
        draft(on);
        break;
      case 9:
        batch();
        break;
      default:
        walk(on);
    }
  }

  std::vector<std::uint8_t> some_bytes() {
    const std::uint32_t token = static_cast<std::uint32_t>(below(world_.words.offsets.size() - 1));
    const auto at = world_.words.bytes.begin();
    return {at + static_cast<std::ptrdiff_t>(world_.words.offsets[token]),
            at + static_cast<std::ptrdiff_t>(world_.words.offsets[token + 1])};
  }

  // Fills the row, keeps what is seen, and returns a token that fits, or kNone.
  std::uint32_t look(Sequence& on) {
    on.matcher->fill_mask(row_);
    const bool accepting = on.matcher->is_accepting();
    if (seen_.size() < 30) seen_.push_back({on.grammar, on.steps, row_, accepting});
    const std::uint32_t from = static_cast<std::uint32_t>(below(world_.words.size));
    for (std::uint32_t i = 0; i < world_.words.size; ++i)
      if (const std::uint32_t token = (from + i) % world_.words.size; has(row_, token)) return token;
    return kNone;
  }

  void walk(Sequence& on) {
    const std::uint32_t token = look(on);
    if (token == kNone) return;
    require(on.matcher->accept(token), "an allowed token is accepted");
    on.steps.push_back({token, {}});
  }

  void draft(Sequence& on) {
    const std::uint32_t token = look(on);
    if (token == kNone) return;
    std::vector<std::uint32_t> rows(row_.size() * 2);
    on.matcher->fill_draft_masks(std::vector{token}, {}, rows);
    require(std::equal(row_.begin(), row_.end(), rows.begin()), "the first row of a draft is the mask");
  }

  void batch() {
    std::vector<Matcher*> matchers;
    for (const Sequence& sequence : sequences_) matchers.push_back(sequence.matcher.get());
    std::vector<std::uint32_t> rows(row_.size() * matchers.size());
    fill_masks(matchers, rows, row_.size(), 2);
    sequences_.front().matcher->fill_mask(row_);
    require(std::equal(row_.begin(), row_.end(), rows.begin()), "a row of a batch is the mask");
  }

  void use_common() {
    try {
      const std::uint32_t token = static_cast<std::uint32_t>(below(world_.words.size));
      Matcher fork(common_);
      (void)fork.accept(token);
      if (common_.accept(token)) common_.fill_mask(row_);
      (void)common_.tokens(8);
      common_.reset();
    } catch (const Error& error) {
      require(error.code == "concurrent_use" || is_limit(error), error.what());
    }
  }

  const World& world_;
  std::shared_ptr<Vocabulary> vocabulary_;
  std::vector<std::shared_ptr<Constraint>> constraints_;
  Matcher& common_;
  std::mt19937_64 random_;
  std::vector<Sequence> sequences_;
  std::vector<std::uint32_t> row_;
  std::vector<Seen> seen_;
};

// One thread, a vocabulary of its own, and plenty of room.
void judge(const World& world, const std::vector<Player>& players) {
  Limits limits = fuzz::kPlenty;
  limits.step_work = std::max<std::uint64_t>(20'000'000, 100 * world.limits.step_work);
  const auto vocabulary = world.words.vocabulary(10 * fuzz::kPlentyOfBytes);
  std::map<std::size_t, std::shared_ptr<Constraint>> constraints;
  std::vector<std::uint32_t> row(vocabulary->mask_words());
  for (const Player& player : players)
    for (const Seen& seen : player.seen()) {
      auto& constraint = constraints[seen.grammar];
      if (!constraint) constraint = std::make_shared<Constraint>(vocabulary, world.grammars[seen.grammar], limits);
      Matcher matcher(constraint);
      try {
        for (const Step& step : seen.steps)
          require(step.token == kNone ? matcher.accept_bytes(step.bytes) : matcher.accept(step.token),
                  "what one of many threads accepts, one alone accepts");
        matcher.fill_mask(row);
        require(row == seen.mask, "many threads see the masks that one alone sees");
        require(matcher.is_accepting() == seen.accepting, "many threads see the ends that one alone sees");
        const auto turn = constraint->lane().turn();  // as if another thread computed
        require(matcher.try_fill_mask(row) && row == seen.mask && matcher.try_is_accepting() == seen.accepting,
                "what is known is read without a turn");
      } catch (const Error& error) {
        is_limit(error);
      }
    }
}

void race(const World& world, std::uint64_t seed) {
  const auto vocabulary = world.words.vocabulary(world.shared_bytes);
  std::vector<std::shared_ptr<Constraint>> constraints;
  for (const Ir& ir : world.grammars) constraints.push_back(std::make_shared<Constraint>(vocabulary, ir, world.limits));
  Matcher common(constraints[0]);
  std::vector<Player> players;
  for (int i = 0; i < kThreads; ++i) players.emplace_back(world, vocabulary, constraints, common, seed * kThreads + i);
  constraints.clear();
  {
    std::vector<std::jthread> threads;
    for (Player& player : players) threads.emplace_back([&player] { player.play(); });
  }
  judge(world, players);
}

World random_world(Input& in) {
  World world;
  world.words = fuzz::read_words(in);
  world.shared_bytes = fuzz::read_room(in);
  world.limits.step_work = in.below(2) == 0 ? 200'000 : 2'000 + 200 * in.byte();  // with little, constraints move apart
  world.limits.live_items = 512;
  world.limits.states = 20'000;
  if (in.below(4) == 0) world.limits.constraint_bytes = 30'000;
  world.grammars.push_back(fuzz::read_ir(in, world.words.size));
  world.grammars.push_back(fuzz::read_ir(in, world.words.size));
  return world;
}

World real_world(const std::string& path) {
  fuzz::ArrayFile file(path);
  World world;
  world.words.bytes = file.array<std::uint8_t>();
  world.words.offsets = file.array<std::uint64_t>();
  world.words.end_tokens = file.array<std::uint32_t>();
  const auto numbers = file.array<std::uint32_t>();  // width of the masks, how many grammars
  world.words.size = numbers[0];
  for (std::uint32_t i = 0; i < numbers[1]; ++i) world.grammars.push_back(file.ir());
  world.actions = 150;
  return world;
}

std::unique_ptr<World> given;  // where there is a file

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  try {
    const std::uint64_t seed = in.byte() + 256u * in.byte();
    if (!given) {
      race(random_world(in), seed);
      return 0;
    }
    World world = *given;
    const std::uint32_t room = in.below(4);
    if (room & 1) world.shared_bytes = 6'000'000;
    if (room & 2) world.limits.constraint_bytes = 400'000;
    race(world, seed);
  } catch (const Error&) {  // a random grammar that is none
    require(!given, "real grammars compile");
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) {
  if (argc > 3) given = std::make_unique<World>(real_world(argv[3]));
  return fuzz::drive(argc, argv, "random races run");
}
#endif
