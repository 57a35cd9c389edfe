// A grammar compiled for a vocabulary: what its configurations allow, remembered and shared by every sequence.
//
//   Vocabulary  immutable tokens, and the home that its constraints share (match/home.hpp).
//   Constraint  immutable grammar; the network and all that is remembered about it can be dropped and built again (an epoch).
//
// A mask that was asked for before costs one look-up and one copy under a shared lock. A new one is made under the exclusive
// lock: tokens that stay inside the open terminals come from the lexicon; tokens that end one are walked from the places
// where it ends, through the steps of the stacks.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "match/home.hpp"
#include "match/stacks.hpp"

namespace narrows {

class Vocabulary {
 public:
  // `size` may exceed the tokens given: ids beyond them are never allowed.
  Vocabulary(std::vector<std::uint8_t> bytes, std::vector<std::uint64_t> offsets, std::vector<std::uint32_t> end_tokens,
             std::uint32_t size, std::uint64_t max_bytes);

  std::uint32_t size() const { return size_; }
  std::uint32_t mask_words() const { return (size_ + 31) / 32; }
  const Trie& trie() const { return *trie_; }
  bool ends(std::uint32_t token) const;
  std::span<const std::uint32_t> end_tokens() const { return end_tokens_; }

  Home& shared() { return shared_; }
  const Home& shared() const { return shared_; }
  // A home of its own for one constraint. A call that would fill it beyond `most_bytes` is refused.
  std::unique_ptr<Home> apart(std::uint64_t most_bytes) const;

 private:
  std::shared_ptr<const Trie> trie_;
  std::vector<std::uint32_t> end_tokens_;
  std::uint32_t size_;
  Home shared_;
};

struct ConstraintStats {
  std::uint64_t states, configs, masks, crossings, bytes, epoch, lexicon_bytes, lexicon_rows, lexicon_masks,
      lexicon_crossings;
};

// Terms recurse to their depth; so much fits a thread's stack whatever the caller asks for.
inline constexpr std::uint64_t kMostTermDepth = 4'000;

class Turn;

class Constraint {
 public:
  Constraint(std::shared_ptr<Vocabulary> vocabulary, Ir ir, const Limits& limits);

  Vocabulary& vocabulary() const { return *vocabulary_; }
  const Limits& limits() const { return limits_; }
  const std::string& rule_name(std::uint32_t rule) const { return ir_.rule_names[rule]; }

  Lane& lane() { return lane_; }
  const Lane& lane() const { return lane_; }
  // Moves into a home of its own, if it is not there yet. Without a lock.
  void move_apart();
  // Bytes that are held for this constraint alone: those of a home of its own, too. Without a lock.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // Everything below wants the lock of the home, the exclusive side unless it says otherwise, and a refresh() first.
  // refresh() drops what is remembered when it has grown too large; true where configurations from before are void.
  bool refresh(Turn& turn);
  void rebuild(Turn& turn);
  // More is remembered than there is room for, which is more than the limit where one sequence was seen to need much of that.
  bool over_room() const;
  // After a replay. `alone`: all was dropped for it; throws where it is over the limit even so.
  void check_room(bool alone);
  // Throws where a single call has gone far beyond the limit, which refresh() looks at only before it.
  void check_memory() const;
  std::uint64_t epoch() const { return epoch_; }  // shared lock suffices
  Stacks& stacks() { return *stacks_; }
  Network& network() { return *network_; }
  Lexicon& lexicon() { return lane_.home().lexicon(); }
  ConfigId start() const { return start_; }
  // At the end of a turn: what bytes() says from now on.
  void count();

  // Where a token leads: by its bytes, by its name in the grammar, or both. Not for end tokens by acceptance.
  ConfigId step_token(ConfigId from, std::uint32_t token, Work& work);
  ConfigId step_bytes(ConfigId from, std::span<const std::uint8_t> bytes, Work& work);
  // The same where every step was taken before, else kNone; for tokens that the grammar does not name. Shared lock.
  ConfigId known_step(ConfigId from, std::uint32_t token) const;

  // Writes the whole row. known_mask: shared lock, false where the mask was not made yet.
  bool known_mask(ConfigId config, std::span<std::uint32_t> row) const;
  void mask(ConfigId config, std::span<std::uint32_t> row, Work& work);

  ConstraintStats stats() const;

 private:
  struct Mask {
    std::uint32_t shared = kNone;                  // a dense mask of the lexicon to start from
    std::uint32_t own = kNone;                     // or one kept here
    std::uint32_t first = 0, count = 0;            // tokens to add
    std::uint32_t lacks = 0;                       // behind them, tokens to take away
    std::uint32_t first_part = 0, part_count = 0;  // what it was made of
  };
  // The lexicon that the configurations refer to is still there.
  bool fresh() const { return lexicon_epoch_ == lane_.home().epoch(); }
  std::size_t remembered() const;
  void build(Turn& turn);
  void write(const Mask& mask, std::span<std::uint32_t> row) const;
  std::uint32_t cross(TermId term, SetId returns, const Inside& inside, Work& work);
  bool takes_all_below(ConfigId config, std::uint32_t node, Work& work);
  struct Walk;
  Walk walk_crossings(SetId returns, const Inside& inside, bool heads, Work& work);
  std::uint32_t add_cross_list(std::span<const std::uint32_t> tokens, bool deep_enough);
  std::uint32_t decide(std::uint32_t list, SetId returns, Work& work);
  void allow(std::span<const std::uint32_t> tokens, Work& work);
  std::uint32_t make_mask(ConfigId config, Work& work);
  Mask combine(std::span<const std::uint32_t> parts, Work& work);

  std::shared_ptr<Vocabulary> vocabulary_;
  Ir ir_;
  Limits limits_;
  Lane lane_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Stacks> stacks_;
  ConfigId start_ = kDead;
  std::vector<bool> named_;             // tokens that the grammar names
  std::vector<std::uint32_t> mask_of_;  // by configuration, kNone where not made yet
  std::vector<Mask> masks_;
  std::vector<std::uint32_t> mask_parts_;
  IdTable mask_ids_;
  std::vector<std::uint32_t> added_;
  std::vector<std::uint32_t> dense_;
  // Tokens that leave a terminal, by the terminal's (clamped) term and the top of the stack below it.
  // And those that the names which were read decide about, each with the bytes before a place where it leaves the terminal.
  struct Undecided {
    std::uint32_t token, head;
  };
  struct CrossList {
    std::uint32_t first, count;
    std::uint32_t first_undecided, undecided;
    bool deep_enough;
  };
  StepMap crossed_;
  std::vector<CrossList> cross_lists_;
  std::vector<std::uint32_t> cross_tokens_;
  std::vector<Undecided> undecided_;
  StepMap decided_;           // by list and return set: the list of those that are allowed there
  IdTable decided_ids_;       // such lists, by their tokens
  bool making_bits_ = false;  // the mask that is being made starts from a dense one
  std::uint64_t epoch_ = 0;
  std::uint64_t lexicon_epoch_ = 0;
  std::uint64_t needed_alone_ = 0;  // the most that one sequence was seen to need; at most the limit
  bool home_dropped_ = false;       // at the last refresh
};

}  // namespace narrows
