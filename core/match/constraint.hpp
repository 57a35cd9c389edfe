// A grammar compiled for a vocabulary. The masks of its configurations are cached and shared by all sequences.
//
//   Vocabulary  immutable tokens, and the home that its constraints share (match/home.hpp).
//   Constraint  immutable grammar. Its network and caches can be dropped and built again; then a new epoch begins.
//
// A cached mask costs one look-up and one copy, and does not wait for those who compute. A new mask is computed in a
// turn: one thread of a home at a time.
// The lexicon gives the tokens that stay inside the open terminals. Tokens that end a terminal are walked from the
// places where it ends, through the steps of the stacks.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "match/cross_lists.hpp"
#include "match/home.hpp"
#include "match/known.hpp"
#include "match/region.hpp"
#include "match/stacks.hpp"

namespace narrows {

class Vocabulary {
 public:
  // `size` may exceed the number of tokens: the ids without a token are never allowed.
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

// Functions of terms recurse to the depth of a term. This depth fits a thread's stack; a greater `limits.term_depth`
// has no effect.
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
  // Moves into a home of its own, if it has not done so yet. Call it without a lock.
  void move_apart();
  // Bytes held for this constraint alone, including those of a home of its own. Needs no lock.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // All functions below need a turn (match/turn.hpp), and a refresh() first. Those that say so need only the shared
  // lock of memory. refresh() drops the caches if they have grown too large. It returns true if earlier configurations
  // are void.
  bool refresh(Turn& turn);
  void rebuild(Turn& turn);
  // Whether the caches exceed their room. The room is greater than the limit if one sequence has needed much of the
  // limit.
  bool over_room() const;
  // Call it after a replay. `alone`: all caches were dropped for it; throws if it is over the limit even so.
  void check_room(bool alone);
  // Throws if a single call has gone far beyond the limit, which refresh() checks only before the call.
  void check_memory() const;
  std::uint64_t epoch() const { return epoch_; }  // the shared lock suffices
  Stacks& stacks() { return *stacks_; }
  Network& network() { return *network_; }
  Lexicon& lexicon() { return lane_.home().lexicon(); }
  ConfigId start() const { return start_; }  // the shared lock suffices
  // At the end of a turn. Gives back what was outgrown; and what bytes() says from now on.
  void drop_old();
  void count();

  // Where a token leads: by its bytes, by its name in the grammar, or both. Not for end tokens by acceptance.
  ConfigId step_token(ConfigId from, std::uint32_t token, Work& work);
  ConfigId step_bytes(ConfigId from, std::span<const std::uint8_t> bytes, Work& work);
  // The same from cached steps, else kNone; for tokens that the grammar does not name. The shared lock suffices.
  ConfigId known_step(ConfigId from, std::uint32_t token) const;
  // Whether the text may end there. The shared lock suffices.
  bool accepting(ConfigId config) const { return stacks_->accepting(config); }

  // Writes the whole row. known_mask: the shared lock suffices; false if the mask is not cached.
  bool known_mask(ConfigId config, std::span<std::uint32_t> row) const;
  void mask(ConfigId config, std::span<std::uint32_t> row, Work& work);

  ConstraintStats stats() const;

 private:
  void try_out(Turn& turn);
  struct Mask {
    std::span<const std::uint32_t> dense;          // to start from: of the lexicon, or kept here; or none
    std::vector<std::uint32_t> tokens;             // to add
    std::size_t added = 0;                         // so many of them: the others are to be taken away
    std::uint32_t first_part = 0, part_count = 0;  // what it was made of
  };
  // The lexicon that the configurations refer to is still there.
  bool fresh() const { return lexicon_epoch_ == lane_.home().epoch(); }
  std::size_t remembered() const;
  std::uint64_t room() const;
  void build(Turn& turn);
  static void write(const Mask& mask, std::span<std::uint32_t> row);
  // match/crossings.cpp
  std::uint32_t cross(TermId term, SetId returns, Work& work);
  std::uint32_t cross_top(TermId term, SetId returns, SetId top, std::uint32_t depth, std::uint32_t before, Work& work);
  bool takes_all(ConfigId config, Groups bytes, Work& work);
  // The name that a token reads after any names.
  struct NameRead {
    bool begun = false;       // all readings were reading one
    std::uint32_t ended = 0;  // bytes after which none was reading it any more
    bool unclear = false;     // later, some reading was reading one
  };
  void follow(NameRead& name, ConfigId config, std::uint32_t depth) const;
  std::uint32_t name_in(const NameRead& name, std::span<const std::uint8_t> tail, Work& work);
  ConfigId split_texts(TermId gap, ConfigId after, std::uint32_t depth, CrossWalk& found, Work& work);
  CrossWalk walk_crossings(SetId returns, TermId term, bool any_names, std::uint32_t depth, std::uint32_t before,
                           Work& work);
  bool walks_nested(TermId crossings_of, Work& work);
  void walk_nested(TermId term, ConfigId after, Region region, CrossWalk& found, Work& work);
  void walk_beyond(const Tree& tree, std::uint32_t root, ConfigId config, const ByteSet& first, Region region,
                   CrossWalk& found, std::vector<std::uint32_t>& unknown, Work& work);
  std::uint32_t decide(std::uint32_t list, SetId returns, Work& work);
  // match/longest.cpp
  std::uint32_t cross_longest(ConfigId config, Work& work);
  CrossWalk walk_longest(ConfigId config, std::span<const std::uint32_t> crossings, Work& work);
  bool walk_after(ConfigId config, std::uint32_t node, CrossWalk& found, Work& work);
  // match/constraint.cpp
  void allow(std::span<const std::uint32_t> tokens, Work& work);
  std::uint32_t make_mask(ConfigId config, Work& work);
  Mask combine(std::span<const std::uint32_t> parts, Work& work);

  std::shared_ptr<Vocabulary> vocabulary_;
  Ir ir_;
  Limits limits_;
  Lane lane_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::size_t own_bytes_ = 0;  // of the constraint and its IR
  std::size_t counted_ = 0;    // what was remembered at the end of the last turn
  std::unique_ptr<Network> network_;
  std::unique_ptr<Stacks> stacks_;
  ConfigId start_ = kDead;
  std::vector<bool> named_;  // tokens that the grammar names
  KnownMap mask_of_;         // by configuration
  Stable<Mask> masks_;
  std::size_t tokens_bytes_ = 0;  // of all masks
  std::vector<std::uint32_t> mask_parts_;
  IdTable mask_ids_;
  std::vector<std::vector<std::uint32_t>> dense_;  // rows, which stay where they are
  // Tokens that leave a terminal, by the terminal's (clamped) term and the top of the stack below it. Also the
  // tokens that depend on the names read before.
  StepMap crossed_;  // by the longest match: by the configuration, cut, and its depth
  CrossLists cross_lists_;
  StepMap decided_;           // by list and return set: the list of those that are allowed there
  IdTable decided_ids_;       // such lists, by their tokens
  bool making_bits_ = false;  // the mask that is being made starts from a dense one
  std::uint64_t epoch_ = 0;
  std::uint64_t lexicon_epoch_ = 0;
  std::uint64_t needed_alone_ = 0;  // the most that one sequence was seen to need; at most the limit
  bool home_dropped_ = false;       // at the last refresh
};

}  // namespace narrows
