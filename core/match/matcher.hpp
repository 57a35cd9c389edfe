// One sequence: the configurations that its tokens have led to. All else is shared.
//
// A rollback cuts the history, a fork copies it, and a draft is walked without changing it. If the constraint has
// dropped its caches, the history is replayed. One thread at a time may use a matcher; a second one gets
// Error("concurrent_use").
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "match/constraint.hpp"
#include "match/turn.hpp"

namespace narrows {

struct Completion {  // bytes, or one token that the grammar names
  std::vector<std::uint8_t> bytes;
  std::uint32_t token = kNone;
};

struct Explanation {
  bool allowed = false;
  std::uint32_t offset = 0;          // bytes of the token that fit
  ByteSet expected;                  // the bytes that the grammar allows there
  bool end_expected = false;         // the text could have ended there
  std::vector<std::uint32_t> rules;  // the rules that were open there
  std::vector<std::uint32_t> named_tokens;
};

// A token, or kNone and the bytes that were accepted without one.
struct TextStep {
  std::uint32_t token;
  std::vector<std::uint8_t> bytes;
};

// The functions that try do not wait for threads that compute: they say nothing, or false, where something is to be
// computed first.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Constraint> constraint);
  Matcher(const Matcher& other);

  bool try_fill_mask(std::span<std::uint32_t> row);
  std::optional<bool> try_accept(std::uint32_t token);
  std::optional<std::uint32_t> try_accepts(std::span<const std::uint32_t> tokens);
  std::optional<bool> try_is_accepting();
  bool try_fill_draft_masks(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents,
                            std::span<std::uint32_t> rows);

  void fill_mask(std::span<std::uint32_t> row);
  bool accept(std::uint32_t token);
  bool accept_bytes(std::span<const std::uint8_t> bytes);
  std::uint32_t accepts(std::span<const std::uint32_t> tokens);
  void rollback(std::size_t count);
  void reset();
  bool is_accepting();
  bool is_finished() const { return finished_.load(std::memory_order_relaxed); }  // needs no lock
  std::size_t length() const;

  std::vector<std::uint8_t> forced_bytes(std::size_t at_most);
  std::vector<std::uint32_t> forced_tokens(std::size_t at_most);
  // The token that the grammar names here, if nothing else may come. Makes no mask.
  std::optional<std::uint32_t> only_token();
  std::vector<Completion> shortest_end();
  // The mask, without the tokens after which more than `at_most` further tokens would be needed to end the text. Cost:
  // that of a step for each token of the mask, and of a shortest end for each place that they lead to.
  void fill_ending_mask(std::size_t at_most, std::span<std::uint32_t> row);
  // The tokens that spell `before` again, or the beginning of it, and then go on as the grammar allows.
  void fill_healing_mask(std::span<const std::uint8_t> before, std::span<std::uint32_t> row);
  Explanation explain(std::uint32_t token);
  // Row 0 is the mask after the text so far. Row i + 1 is the mask after tokens[i], which follows row parents[i] + 1
  // (-1: the text so far) or, without parents, the token before it. Rows after a token that does not fit are all zero.
  void fill_draft_masks(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents,
                        std::span<std::uint32_t> rows);

  // The last of the accepted tokens in order. kNone stands for bytes that were accepted without a token.
  std::vector<std::uint32_t> tokens(std::size_t last) const;
  std::vector<TextStep> text() const;

  Constraint& constraint() const { return *constraint_; }
  // (epoch, configuration, finished): while no cache is dropped, equal keys mean equal futures.
  std::uint64_t state_key() const;

 private:
  struct Step {
    std::uint32_t token;         // kNone for bytes
    std::uint32_t first, count;  // in bytes_
  };
  class Use;
  struct Place {
    ConfigId config;
    bool finished;
  };
  ConfigId current() const { return configs_.back(); }
  void set_finished(bool finished) { finished_.store(finished, std::memory_order_relaxed); }
  // Calls with a turn of the constraint's home. It is repeated if the call is too much for a shared home.
  template <class Call>
  auto in_turn(const Call& call);
  void replay_if_stale(Turn& turn, bool& alone);
  void add(Step step, ConfigId config);
  void undo();
  ConfigId step_pieces(ConfigId from, std::span<const std::uint8_t> bytes, Turn& turn);
  void took_step();
  bool take(std::uint32_t token, Place to);
  void check(std::uint32_t token) const;
  void check_draft(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents) const;
  // The place in the draft that a token follows: 0 is the text so far.
  static std::size_t before(std::span<const std::int32_t> parents, std::size_t token) {
    return parents.empty() ? token : static_cast<std::size_t>(parents[token] + 1);
  }
  // All known functions need the shared lock of memory.
  bool is_fresh() const { return epoch_ == constraint_->epoch(); }
  // Where a token leads, kDead or kNone; known steps alone.
  Place known_advance(Place from, std::uint32_t token) const;
  // Where a token leads from a place. If it does not fit: config kDead, not finished.
  Place advance(Place from, std::uint32_t token, Work& work);
  std::size_t count_tokens(std::span<const Completion> parts) const;
  Explanation explain_here(std::uint32_t token, Work& work);
  void mask_at(Place at, std::span<std::uint32_t> row, Work& work);

  std::shared_ptr<Constraint> constraint_;
  std::vector<ConfigId> configs_;  // one more than steps
  std::vector<Step> steps_;
  std::vector<std::uint8_t> bytes_;
  std::atomic<bool> finished_ = false;
  std::uint64_t epoch_ = 0;
  Spent spent_;
  std::atomic<bool> busy_ = false;
};

// The masks of many matchers at once. No matcher may be given twice.
void fill_masks(std::span<Matcher* const> matchers, std::span<std::uint32_t> rows, std::size_t row_words,
                unsigned threads);

}  // namespace narrows
