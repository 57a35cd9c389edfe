// The cache that a vocabulary's grammars share: terms, their automaton rows, and for each automaton state the tokens
// that stay inside it.
//
// Everything here is a pure function of the vocabulary and of a term. So it is computed once, for all grammars and
// sequences. A row (the 256 successors of a state) is computed when a walk first needs it: one derivative per class of
// bytes. Not synchronised: the owner holds a lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "automata/terms.hpp"
#include "vocab/trie.hpp"

namespace narrows {

// Tokens allowed at one automaton state, and where tokens leave it.
struct Inside {
  std::uint32_t dense = kNone;        // index of a dense mask, or kNone where `tokens` lists them all
  std::vector<std::uint32_t> tokens;  // in order
  std::vector<std::uint32_t> lacks;   // in order: tokens of the dense mask that are not allowed here
  TermId crossings_of = kNever;       // the term with the same crossings whose record lists them: mostly this one
  std::vector<std::uint32_t>
      crossings;  // in order: trie nodes where a text of the term ends and some token goes on beyond it
  std::unique_ptr<std::vector<std::uint32_t>> needed;  // crossings: Lexicon::needed_crossings
  std::uint32_t deepest = 0;                           // bytes of a token that stay inside, at most
  std::uint32_t visited = kNone;                       // nodes of the walk that it would take, as far as that is known
  std::uint64_t way = ~0ull;  // bytes that end the text after any token, at most, as far as it was asked for
  enum class Gap : std::uint8_t { unknown, no, yes };
  Gap gap = Gap::unknown;              // whether it is one (Lexicon::is_gap)
  ByteSet gap_bytes;                   // that go on where the gap may end
  std::uint32_t nodes_beyond = kNone;  // its crossings, as has_much_beyond counts them
  std::uint32_t walks = 0;             // over what is beyond its crossings
  std::uint32_t beyond = kNone;        // index of that
};

// What tokens have beyond the crossings of a record: the subtrees of the trie below them laid over each other, but for
// those of great ones.
struct Beyond {
  MergedTree merged;
  std::vector<std::uint32_t> great;
};

inline constexpr std::uint64_t kNoBound = ~0ull;

class Lexicon {
 public:
  // Work that would need more than `most_bytes` is refused with the limit constraint_bytes.
  Lexicon(std::shared_ptr<const Trie> trie, std::uint32_t mask_words, std::uint64_t most_bytes = kNoBound);

  Terms& terms() { return terms_; }
  const Trie& trie() const { return *trie_; }
  std::uint32_t mask_words() const { return mask_words_; }

  // The state after `byte`; kNever if nothing can follow.
  TermId step(TermId term, std::uint8_t byte, Work& work);
  // The same without making a row, which is less work for a state that is seen once.
  TermId step_once(TermId term, std::uint8_t byte, Work& work);
  // Bytes that may come next.
  const ByteSet& first(TermId term, Work& work);
  // A term that has the same tokens: bounds of counters that no token can reach make no difference. Cached by term.
  TermId clamp(TermId term, Work& work);
  // The same, as far as the longest token that stays inside the term: it costs the record of the term that is found.
  TermId clamp_inside(TermId term, Work& work);
  // The same through the clamped term, so that a counter does not get a row for each of its states.
  const ByteSet& first_clamped(TermId term, Work& work) { return first(clamp(term, work), work); }
  // Groups of bytes that all lead back to the (clamped) term.
  Groups loops(TermId term, Work& work) { return row(clamp(term, work), work).loops; }
  bool alive(TermId term, Work& work);
  // A shortest text of a term, and its length.
  void shortest(TermId term, std::vector<std::uint8_t>& out, Work& work);
  std::uint64_t shortest_length(TermId term, Work& work);

  // Texts in terms that have to satisfy several rules, and the same with what opens them.
  struct Ruled {
    TermId begin, text;
  };
  std::vector<Ruled> texts_of_rules(std::span<const TermId> terms, Work& work);
  // Places in such a text whose masks take the most work, if two of its rules have many states. So a limit can be
  // met before the text is begun.
  std::vector<TermId> costly_places(const Ruled& ruled, Work& work);

  // The record of the term that is clamped for the tokens inside.
  const Inside& inside(TermId term, Work& work);
  std::span<const std::uint32_t> dense(std::uint32_t index) const { return dense_[index]; }
  // What tokens have beyond the crossings of a record, which is that of `crossings_of`. Asked for before each walk over
  // it; nullptr where a walk over the trie takes less. Valid until the next call.
  const Beyond* beyond(TermId crossings_of, Work& work);
  // The crossings of a term with a record beyond which it lacks some token.
  std::span<const std::uint32_t> needed_crossings(TermId term, Work& work);
  // Whether much of the vocabulary is beyond the crossings of a record.
  bool has_much_beyond(TermId crossings_of, Work& work);
  // Whether a term with a record is like white space: few states, and much of the vocabulary beyond its crossings.
  bool is_gap(TermId crossings_of, Work& work);
  // White space with the text after it, as one term. kNone where few tokens begin the text, or where a byte might
  // belong to either.
  TermId with_text(TermId gap, TermId text, Work& work);

  // Buffers for building a mask: its bits, and the tokens that are new in it. The users of the lexicon share them, one
  // at a time.
  std::vector<std::uint32_t>& mask_bits() { return mask_bits_; }
  std::vector<std::uint32_t>& mask_tokens() { return mask_tokens_; }

  std::size_t bytes() const;
  // Statistics: rows, terms with a record of what stays inside, and places where tokens leave those terms.
  std::size_t rows() const { return rows_.size(); }
  std::size_t masks() const { return inside_count_; }
  std::size_t crossings() const { return crossing_count_; }

 private:
  struct Row {
    std::array<TermId, 256> next;
    ByteSet first;
    Groups first_groups = 0;
    Groups loops = 0;    // groups of bytes that all lead back here
    Groups uneven = 0;   // groups of bytes that do not all lead to the same state
    bool final = false;  // successors that accept nothing have been replaced by kNever
  };
  enum class Life : std::uint8_t { unknown, alive, dead };
  static constexpr std::uint16_t kNoWay = 0xffff;
  struct Onward {
    std::uint8_t byte = 0;       // leads on to the end
    std::uint16_t way = kNoWay;  // so many bytes do, as far as is known
  };
  class Frontier;

  bool has_row(TermId term) const { return term < row_of_.size() && row_of_[term] != kNone; }
  Row& raw_row(TermId term, Work& work);
  TermId derivative(TermId term, std::uint8_t byte, Work& work);
  std::pair<TermId, TermId> intersection(TermId term) const;
  bool is_passing(TermId term, Work& work);
  bool leaves_some(TermId term, Work& work);
  bool goes_round(TermId term, Work& work);
  bool goes_round_soon(TermId term, Work& work);
  bool goes_round_on_the_way(TermId term, Work& work);
  // automata/bounds.cpp
  struct States {
    std::vector<TermId> states;  // of a term, which is the first
    std::uint64_t ends = 0;      // states at which it may end
    StepMap after_of;            // by term and state
    std::vector<std::uint64_t> after;
  };
  struct Bound {
    TermId any = kNone, least = kNone;  // the same without both numbers, and without the greatest one
    TermId items = kNone;               // `any` without the rest of an item
    std::uint64_t min = 0, max = 0;
  };
  struct Unbounded {
    TermId wider = kNone;
    std::uint64_t room = 0;  // within so many bytes the two do not differ
  };
  struct Within {
    TermId text = kNone, counter = kNone, rest = kNone;
    Bound bound;
    std::uint64_t way = kNoBound;  // not known
  };
  Unbounded without_bounds(TermId term, Work& work);
  bool has_few_parts(TermId term, Work& work) const;
  std::uint64_t longest_known_way(TermId term, Work& work);
  TermId without_most(TermId term, std::uint64_t room, Work& work);
  Unbounded unbounded(TermId term, Work& work);
  Bound bound_of(TermId term, bool also_least = false);
  Unbounded uncounted(TermId term, Work& work);
  TermId uncount(TermId term, std::uint32_t depth, std::uint64_t& room, Work& work);
  static constexpr std::uint64_t kManyStates = 2'001;
  std::uint64_t most_states(TermId term, Work& work);
  bool has_few_states(TermId term, Work& work) { return most_states(term, work) < kManyStates; }
  std::uint32_t keep_list(std::unique_ptr<States> made);
  std::uint32_t list_of(TermId first, Work& work);
  std::uint32_t list_with(TermId state, TermId first, Work& work);
  bool is_state(TermId term, TermId first, Work& work);
  bool holds_only(TermId text, TermId first, TermId from, Work& work);
  std::unique_ptr<States> states_of(TermId first, Work& work);
  std::uint64_t after(TermId term, std::uint32_t state, States& list, Work& work);
  struct Without {
    TermId kept = kNone, rest = kEmpty;
    std::vector<TermId> less;
  };
  Without without(TermId term, TermId wider, Work& work);
  ByteSet apart(TermId term, TermId wider, Work& work);
  bool has_a_way_round(TermId text, TermId left_out, Work& work);
  Groups parting(TermId term, TermId wider, Work& work);
  TermId wider_of(TermId term, Work& work);
  TermId with_the_few(TermId term, Work& work);
  Groups closing(TermId kept, TermId rest, Work& work);
  Row& row(TermId term, Work& work);
  static Groups uneven_groups(const std::array<TermId, 256>& next);
  struct Parts;
  Parts parts_of(TermId term);
  TermId after_parts(const Parts& parts, std::vector<TermId>& next);
  bool row_of_parts(TermId term, Row& made, Work& work);
  void row_of_derivatives(TermId term, Row& made, Work& work);
  // automata/life.cpp
  Life known_life(TermId term) const;
  void mark_dead(TermId term);
  void mark_alive(TermId term, std::uint8_t byte, TermId next);
  std::uint64_t known_way(TermId term);
  std::vector<std::uint8_t> guess(TermId term, Work& work);
  bool accepts(TermId term, std::span<const std::uint8_t> text, Work& work);
  std::vector<std::uint8_t> way_out(TermId term, Work& work);
  bool plainly_dead(TermId term, Work& work);
  bool search(TermId term, bool is_relaxed, Work& work);
  // automata/item_counts.cpp
  struct CounterState {
    TermId now = kNone, between = kNone;
  };
  struct Reach {
    TermId to;
    std::uint32_t least, most;  // items that begin on the way
  };
  struct Reaches {
    bool is_known = true;
    std::vector<Reach> all;
  };
  bool has_other_lengths(TermId term, Work& work);
  std::uint64_t longest_way_in(TermId term, const Bound& counter, Work& work);
  std::uint64_t way_in(TermId term, TermId items, Work& work);
  Reaches items_in(TermId term, const CounterState& state, Work& work);
  // automata/end_within.cpp
  struct CountedText {
    TermId text = kNone, counter = kNone, rest = kNone;
    CounterState state;  // of the counter without its numbers
    std::uint64_t min = 0, max = 0;
  };
  struct Left {
    std::uint32_t least = 0;            // items that an end needs at least; kNone where there is no end
    std::uint32_t known = kNone;        // items of an end that is known
    bool goes_on = false;               // and there are such with any number of items more
    bool is_guessed = false;            // that end is what guess() has
    std::uint8_t byte = 0;              // else: leads to it
    std::uint32_t search = 0, met = 0;  // the last search that met it, and its place there
  };
  CountedText counted_text(TermId term, Work& work);
  TermId without_slack(TermId part, TermId items, std::uint64_t most, Work& work);
  std::uint32_t left_at(TermId text, const CounterState& state, Work& work);
  std::vector<std::uint8_t> end_of(TermId text, const CounterState& state, Work& work);
  std::uint32_t guessed_items(TermId text, const CounterState& state, Work& work);
  static bool repeats(const Row& row, const Row& counts, TermId text, TermId now);
  Life ends_within(TermId text, const CounterState& state, std::uint64_t least, std::uint64_t most, Work& work);
  Life known_end(TermId text, const CounterState& state, std::uint64_t least, std::uint64_t most) const;
  Life life_by_items(TermId term, bool is_searched, Work& work);
  // automata/inside.cpp
  struct Lane {
    struct Counted {
      std::uint32_t id;     // a token, or a node
      std::uint32_t count;  // of items that begin in it
    };
    bool counts = false;             // the items can be counted
    std::vector<Counted> staying;    // by count: tokens that end in the repetition
    std::vector<Counted> leaving;    // by count: tokens that end in what follows it
    std::vector<Counted> crossings;  // in order: nodes
  };
  struct Likeness {
    TermId wider = kNone;
    Groups unlike = 0;             // groups with a byte after which only one of the two goes on
    bool until = false;            // and after which nothing more is known
    bool is_close = false;         // few nodes have such a byte below them
    std::uint64_t way = kNoBound;  // Inside::way of the wider one, if greatest numbers are all that it lacks
    std::uint32_t alike = 0;       // within so many bytes both go on, as far as it is known
    // Without a byte of these groups, and without these letters, both go on.
    Groups leaving = ~Groups{0};
    std::uint32_t leaving_letters = ~std::uint32_t{0};
  };
  const Inside& keep(TermId id, std::unique_ptr<Inside> made);
  class Opened;
  Likeness known_beside(TermId id, bool& passing, Work& work);
  bool meets_soon(TermId term, TermId wider, Work& work);
  bool is_open(TermId id) const;
  bool may_ask_for(TermId term, Work& work);
  bool has_few_nodes(Groups groups, std::uint32_t most, Work& work) const;
  static bool is_text(const Row& item);
  const Lane& lane(TermId item, TermId rest, const Inside& uncounted, Work& work);
  static std::vector<Lane::Counted> by_count(std::span<const Lane::Counted> list);
  struct Counting;
  struct CountedPlace;
  bool count_items(TermId item, TermId rest, const Inside& uncounted, Lane& made, Work& work);
  bool count_nodes(const Tree& tree, std::uint32_t from, std::uint32_t to, const CountedPlace& parent,
                   Counting& counting, Work& work);
  bool counted(TermId term, Inside& made, Work& work);
  void load(const Inside& record);
  void share_dense(Inside& made, const Inside& wider, Work& work);
  struct Walk;
  void walk(TermId term, Inside& made, Work& work);
  void walk_nodes(const Tree& tree, std::uint32_t from, std::uint32_t to, const Row& parent, std::size_t depth,
                  Walk& found, Work& work);
  void walk_list(TermId list, Inside& made, Work& work);
  // automata/crossings.cpp
  void share_crossings(Inside& made, TermId other, Work& work);
  // automata/gaps.cpp
  bool has_few_rows(TermId term, ByteSet& bytes, Work& work);
  // automata/substrings.cpp
  void walk_substrings(TermId term, Inside& made, Work& work);
  void walk_text(const Suffixes& text, const Suffixes::Place& place, Inside& made, Work& work);
  // automata/inside.cpp
  void settle(Inside& made, Work& work);
  std::uint32_t keep_dense();
  // automata/beside.cpp
  class Beside;
  bool walk_beside(TermId term, const Likeness& like, std::uint32_t most, Inside& made, Work& work);
  TermId step_beside(TermId term, std::uint8_t byte, Work& work);
  bool same_below(TermId term, TermId wider, std::uint64_t way, std::uint32_t node, Work& work);
  Within within(TermId term, Work& work);
  Within within_counts(TermId term, Work& work);
  bool walk_within(const Within& start, Inside& made, Work& work);
  // automata/likeness.cpp
  Likeness until_closed(TermId term, Work& work);
  TermId with_head(TermId head, TermId term);
  bool begins_with(TermId term, TermId item) const;
  Likeness all_until_closed(TermId term, Work& work);
  bool all_go_on(std::span<const TermId> parts, TermId begun, TermId close, std::uint64_t& way, Work& work);
  enum class Found : std::uint8_t { never, last, anywhere };
  Found found_after(TermId pattern, TermId begun, std::uint64_t& way, Work& work);
  bool is_any_text(TermId term, Work& work);
  bool can_be_counted(TermId character, TermId close, Work& work);
  bool is_prefix_free(TermId term, Work& work);
  Likeness likeness_until(TermId wider, TermId close, Work& work);
  TermId last_of(TermId term) const;
  TermId without_least(TermId term);
  Likeness plain_until_closed(TermId term, Work& work);
  Likeness text_before_more(TermId term, Work& work);
  const Likeness& likeness(TermId term, Work& work);
  bool alike_below(TermId term, TermId wider, std::uint32_t node) const;
  static std::uint32_t letters_of(const ByteSet& bytes);
  void find_letters(Work& work);
  struct Pairs;
  static std::vector<ByteSet> leaving_home(const Pairs& pairs);
  bool find_pairs(TermId term, TermId text, Pairs& pairs, Work& work);
  bool compare(TermId term, TermId text, Work& work);
  void check_memory() const;

  std::shared_ptr<const Trie> trie_;
  std::uint32_t mask_words_;
  std::uint64_t most_bytes_;
  Terms terms_;
  std::vector<std::uint32_t> row_of_;  // by term, kNone where there is none yet
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<Life> life_;                        // by term
  std::vector<Onward> towards_;                   // by term that is alive
  std::vector<std::vector<std::uint8_t>> found_;  // texts that searches found, the last that helped first
  std::vector<std::uint8_t> goes_round_;          // by term: 0 unknown, 1 no, 2 yes
  std::vector<TermId> clamped_;                   // by term, kNone where not asked for yet
  std::vector<TermId> clamped_inside_;            // the same
  StepMap unbounded_of_;  // by term, and 0 for an intersection's greatest numbers or 1 for its own counters
  std::vector<Unbounded> unbounded_;
  StepMap list_of_;    // by term: the list of its states
  StepMap list_with_;  // a list, by a state and `first`; by the state twice where the list has all that comes after it
  std::vector<std::unique_ptr<States>> lists_;
  std::size_t list_bytes_ = 0;
  std::vector<std::unique_ptr<Inside>> inside_;  // by clamped term
  std::vector<Beyond> beyond_;                   // what is below the crossings of some
  std::vector<TermId> open_;                     // whose records are being made
  std::vector<TermId> texts_;                    // with a record that others may be like
  StepMap begun_with_;                  // texts before more: by the characters, and by what they are wider than
  std::vector<std::uint32_t> like_of_;  // by term: a likeness, of which the first two are none
  std::vector<Likeness> likenesses_{{}, {}};
  std::vector<std::uint32_t> letters_below_;  // by node of the trie; empty until it is needed
  std::vector<std::unique_ptr<Lane>> lanes_;  // by item and what follows it: lane_of_
  StepMap lane_of_, bounded_;                 // bounded_: dense masks, by the term without a bound and the bound
  StepMap steps_beside_;                      // by term and byte
  StepMap parting_of_;                        // by what a term keeps and what follows
  std::vector<Groups> partings_;
  StepMap ways_in_;     // way_in, by term and items
  StepMap reaches_of_;  // by term and state of a counter
  std::vector<Reaches> reaches_;
  std::size_t reaches_bytes_ = 0;
  StepMap left_of_;  // by text and state of a counter
  std::vector<Left> lefts_;
  std::uint32_t searches_ = 0;
  StepMap lengths_;                                // of shortest texts of terms that are not plain
  std::vector<std::uint16_t> plain_states_;        // by term: how many states it has at most, or that they may be many
  std::vector<std::vector<std::uint32_t>> dense_;  // rows, which stay where they are
  std::vector<std::uint32_t> scratch_;             // the record that is being made
  std::vector<std::uint32_t> mask_bits_, mask_tokens_;
  std::size_t lane_bytes_ = 0, inside_bytes_ = 0, beyond_bytes_ = 0, inside_count_ = 0, crossing_count_ = 0;
};

}  // namespace narrows
