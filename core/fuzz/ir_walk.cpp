// Any bytes, read as a vocabulary and a grammar, either are refused with an Error or make a matcher that keeps its
// promises:
//   - a token is in the mask exactly when it is accepted;
//   - rollback, fork and draft masks give the same masks as the walk itself;
//   - a shortest end is accepted and ends the text;
//   - a call that meets a limit leaves the matcher where it stood, however little memory and work there is;
//   - masks and ends do not depend on what other grammars have made known in the vocabulary.
#include "fuzz/random_ir.hpp"

namespace {

using namespace narrows;
using fuzz::has;
using fuzz::Input;
using fuzz::read_ir;
using fuzz::require;

std::shared_ptr<Vocabulary> read_vocabulary(Input& in) {
  const fuzz::Words words = fuzz::read_words(in);
  return words.vocabulary(fuzz::read_room(in));
}

void walk(Input& in) {
  const auto vocabulary = read_vocabulary(in);
  Limits limits = fuzz::kPlenty;
  limits.step_work = 200'000;
  limits.live_items = 512;
  limits.states = 20'000;
  if (in.below(4) == 0) limits.constraint_bytes = 30'000;
  const auto constraint = std::make_shared<Constraint>(vocabulary, read_ir(in, vocabulary->size()), limits);
  Matcher matcher(constraint);
  const std::uint32_t size = vocabulary->size();
  std::vector<std::uint32_t> row(vocabulary->mask_words()), other(row.size());
  std::vector<std::vector<std::uint32_t>> seen;
  for (int step = 0; step < 12; ++step) {
    matcher.fill_mask(row);
    seen.push_back(row);
    Matcher probe(matcher);
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t t = 0; t < size; ++t) {
      const bool accepted = probe.accept(t);
      require(accepted == has(row, t), "a token is in the mask exactly when it is accepted");
      if (accepted) {
        allowed.push_back(t);
        probe.rollback(1);
      }
    }
    if (matcher.is_finished()) {
      require(allowed.empty(), "nothing follows an end token");
      break;
    }
    probe.fill_mask(other);
    require(other == row, "rollback restores the mask");
    std::vector<Completion> end;
    bool has_end = true;
    try {
      end = probe.shortest_end();
    } catch (const Error& error) {  // by the longest match, there may be none
      if (error.code != "no_shortest_end" && error.limit != "step_work") throw;
      has_end = false;
    }
    for (const Completion& part : end) {
      const bool accepted = part.token == kNone ? probe.accept_bytes(part.bytes) : probe.accept(part.token);
      require(accepted, "a shortest end is accepted");
      if (probe.is_finished()) break;
    }
    require(!has_end || probe.is_finished() || probe.is_accepting(), "a shortest end ends the text");
    if (allowed.empty()) break;
    const std::uint32_t next = allowed[in.byte() % allowed.size()];
    std::vector<std::uint32_t> rows(row.size() * 2);
    matcher.fill_draft_masks(std::vector{next}, {}, rows);
    require(matcher.accept(next), "an allowed token is accepted");
    matcher.fill_mask(other);
    require(std::equal(other.begin(), other.end(), rows.begin() + static_cast<std::ptrdiff_t>(row.size())),
            "a draft mask is the mask after the token");
    if (in.below(6) == 0 && matcher.length() > 1) {
      matcher.rollback(2);
      seen.resize(seen.size() - 1);
      matcher.fill_mask(other);
      require(other == seen.back(), "the mask is the same after a rollback");
      seen.pop_back();
    }
  }
}

// The same grammar twice on one vocabulary: with hardly any room, and with plenty. What the first can say must be the
// same.
void walk_in_little_room(Input& in) {
  const auto vocabulary = read_vocabulary(in);
  const Ir ir = read_ir(in, vocabulary->size());
  Limits plenty = fuzz::kPlenty;
  plenty.step_work = 2'000'000;
  Limits little = plenty;
  little.step_work = 500 + 100 * in.byte();
  little.constraint_bytes = 3'000 + 100 * in.byte();
  const auto rich = std::make_shared<Constraint>(vocabulary, ir, plenty);
  const auto poor = std::make_shared<Constraint>(vocabulary, ir, little);
  Matcher judge(rich), matcher(poor);
  std::vector<std::uint32_t> row(vocabulary->mask_words()), right(row.size());
  for (int step = 0; step < 30 && !in.empty(); ++step) {
    const std::size_t length = matcher.length();
    const Matcher* called = &matcher;
    const auto judged = [&]() -> Matcher& {
      called = &judge;
      return judge;
    };
    const std::uint32_t token = in.below(vocabulary->size());
    const auto action = in.below(8);
    try {
      if (action == 0) {
        const std::size_t count = std::min<std::size_t>(matcher.length(), in.below(3));
        matcher.rollback(count);
        judge.rollback(count);
      } else if (action == 1) {
        const std::vector<std::uint8_t> text(1 + in.below(40), static_cast<std::uint8_t>('a' + in.below(3)));
        const bool accepted = matcher.accept_bytes(text);
        require(judged().accept_bytes(text) == accepted, "bytes are accepted alike");
      } else if (action < 5) {
        const bool accepted = matcher.accept(token);
        require(judged().accept(token) == accepted, "a token is accepted alike");
      } else if (action == 5) {
        (void)matcher.shortest_end();
      } else {
        matcher.fill_mask(row);
        judge.fill_mask(right);
        require(row == right, "masks are alike");
        require(matcher.is_accepting() == judge.is_accepting(), "sentences end alike");
      }
    } catch (const Error& error) {
      require(error.code != "invalid_input", "only limits are met");
      require(called->length() == length, "a call that fails takes no step");
      if (matcher.length() != judge.length())
        return;  // the judge has met the limit of the vocabulary, which they share
    }
  }
}

// Fills the mask and accepts a token of it, which is returned; kNone where it has none.
std::uint32_t take_a_step(Matcher& matcher, Input& in) {
  std::vector<std::uint32_t> row(matcher.constraint().vocabulary().mask_words());
  matcher.fill_mask(row);
  const std::uint32_t size = static_cast<std::uint32_t>(32 * row.size()), from = in.byte();
  for (std::uint32_t i = 0; i < size; ++i)
    if (const std::uint32_t token = (from + i) % size; has(row, token)) {
      require(matcher.accept(token), "an allowed token is accepted");
      return token;
    }
  return kNone;
}

// A grammar on a vocabulary that others have used, and on one that is new: what is known of their terms must not show.
// The others are nearly the same, so that they share terms.
void walk_after_others(Input& in) {
  const fuzz::Words words = fuzz::read_words(in);
  const auto used = words.vocabulary(fuzz::kPlentyOfBytes), fresh = words.vocabulary(fuzz::kPlentyOfBytes);
  Limits limits = fuzz::kPlenty;
  limits.step_work = 500'000;
  limits.live_items = 512;
  limits.states = 20'000;
  std::mt19937_64 random(in.byte());
  for (int other = 0; other < 4; ++other) {
    const std::vector<std::uint8_t> data = in.nearly(random);
    Input bytes(data.data(), data.size());
    try {
      Matcher matcher(std::make_shared<Constraint>(used, read_ir(bytes, words.size), limits));
      for (int step = 0; step < 12 && take_a_step(matcher, bytes) != kNone; ++step) {
      }
    } catch (const Error&) {
    }
  }
  const Ir ir = read_ir(in, words.size);
  Matcher matcher(std::make_shared<Constraint>(used, ir, limits)),
      judge(std::make_shared<Constraint>(fresh, ir, limits));
  std::vector<std::uint32_t> row(used->mask_words()), right(row.size());
  for (int step = 0; step < 12; ++step) {
    judge.fill_mask(right);
    matcher.fill_mask(row);
    require(row == right, "masks do not depend on other grammars");
    require(matcher.is_accepting() == judge.is_accepting(), "ends do not depend on other grammars");
    require(matcher.forced_bytes(40) == judge.forced_bytes(40), "what is forced does not depend on other grammars");
    const std::uint32_t token = take_a_step(matcher, in);
    if (token == kNone) break;
    require(judge.accept(token), "an allowed token is accepted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto walker : {walk, walk_in_little_room, walk_after_others}) {
    Input in(data, size);
    try {
      walker(in);
    } catch (const narrows::Error&) {
    }
  }
  return 0;
}

#ifdef NARROWS_OWN_DRIVER
int main(int argc, char** argv) { return narrows::fuzz::drive(argc, argv, "random grammars walked"); }
#endif
