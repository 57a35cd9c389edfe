// The position of a text in a grammar: hash-consed configurations over a graph-structured stack, and the steps between
// them.
//
//   node    (state, set): when the open rule ends, reading goes on at `state`, and below it with any node of `set`. A
//           node also holds the names that this run of the rule has read, and the name that is being read (names.hpp),
//           and how many tokens the terminal that is open there may still take.
//   set     a sorted list of nodes, interned. Set 0 holds the bottom only: its end is the end of the text. Set 1 stands
//           for a part of the stack that was cut off. A result that never reaches set 1 is independent of that part.
//   config  a sorted list of (term, set): an open terminal, as the term that is left of it, and the set that it returns
//           to. It also has the same for single tokens, and whether the text so far is complete. Config 0 is dead.
//
// A grammar may cut its text by the longest match (Ir::longest). Then all terminals of a configuration began at the same
// place, and as long as one of them goes on, none ends. What may come after those that could end is a configuration of
// its own, `next`. It takes a byte only if none of the open terminals does.
//
// Nothing holds an absolute position, so equal futures get equal ids. This is Earley's method without positions, and it
// makes it useful to cache masks and steps. A cached step costs one look-up. A new step takes time in the number of
// open readings: constant for most grammars, and for an ambiguous grammar cubic in the text at worst.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "grammar/network.hpp"
#include "match/closure.hpp"
#include "match/known.hpp"
#include "match/names.hpp"

namespace narrows {

using ConfigId = std::uint32_t;
inline constexpr ConfigId kDead = 0;

struct Item {
  std::uint32_t label;  // a term; or an index of a token set
  SetId returns;
};

class Stacks {
 public:
  static constexpr std::uint32_t kBottom = 0;  // the node below everything
  static constexpr std::uint32_t kCut = 1;     // the node that stands for what was cut off

  Stacks(Network& network, Lexicon& lexicon, const Ir& ir, const Limits& limits);

  ConfigId start(Work& work);
  ConfigId step(ConfigId config, std::uint8_t byte, Work& work);
  // By the token's place in the grammar; kDead if no reading names the token.
  ConfigId step_token(ConfigId config, std::uint32_t token, Work& work);
  // Both readings of a token that the grammar names and also allows as bytes.
  ConfigId merge(ConfigId x, ConfigId y, Work& work);

  // The configuration at the end of a token. A terminal that may take no more tokens ends, if it can end here. If it
  // cannot, it goes on until it can.
  ConfigId end_token(ConfigId config, Work& work);
  // The same if it is cached, else kNone. Safe while another thread computes.
  ConfigId known_end_token(ConfigId config) const {
    return !network_.counts_tokens() || config == kDead ? config : token_ends_.find(config, 0);
  }

  // A cached step, else kNone. Safe while another thread computes.
  ConfigId known_step(ConfigId config, std::uint8_t byte) const { return steps_.find(config, byte); }

  // The set with everything deeper than `depth` nodes replaced by the cut, and with `names` (kUnknown or kAny) in place
  // of the names that were read. Places that differ only in these share the result.
  SetId top(SetId set, std::uint32_t depth, NameSet names, Work& work);
  // The set after a byte of the names that are being read in it.
  SetId read_on(SetId set, std::uint8_t byte, Work& work);
  // Some reading has reached the cut: this configuration allows less than the real one.
  bool reached_cut(ConfigId config) const { return configs_[config].reached_cut; }
  // After unknown names: a name has just ended, and the text after it is left out.
  bool left_out(ConfigId config) const { return configs_[config].left_out; }
  // After unknown names: only names can come here, of which none may be left, or nothing can come.
  bool doubtful(ConfigId config) const { return configs_[config].doubtful; }
  // The same for one item.
  bool doubtful(const Item& item, Work& work) const;

  // Whether the text may end there. Safe while another thread computes.
  bool accepting(ConfigId config) const { return accepting_[config] != 0; }
  std::span<const Item> items(ConfigId config) const {
    const Config& c = configs_[config];
    return std::span(items_).subspan(c.first, c.terms);
  }
  std::span<const Item> token_items(ConfigId config) const {
    const Config& c = configs_[config];
    return std::span(items_).subspan(c.first + c.terms, c.tokens);
  }
  // By the longest match: what may come after the terminals that could end here; kNone where there are none.
  ConfigId next(ConfigId config) const { return configs_[config].next; }
  bool longest() const { return longest_; }
  // After any names: whether the readings are reading one of these names.
  enum class NameReadings : std::uint8_t { none, some, all };
  NameReadings name_readings(ConfigId config) const;
  // Adds the sets of names that were read in the uppermost `depth` nodes. False where a name is being read there, or
  // where that is too much to look at.
  bool names_above(SetId set, std::uint32_t depth, std::vector<NameSet>& out, Work& work) const;
  // Whether the grammar has names that come once.
  bool has_names() const { return !fixed_.empty(); }
  // How all names of the grammar that come once are spelled, if they are strings that are spelled alike.
  std::optional<NameSpelling> name_spelling() const { return name_spelling_; }
  // Bytes that some reading can take next; and those that an open terminal can take.
  const ByteSet& first(ConfigId config, Work& work);
  ByteSet first_open(ConfigId config, Work& work);
  // Groups of bytes of which each leads back to the configuration, as far as the bytes of one token can tell.
  Groups stays(ConfigId config, Work& work);
  // The configuration with all sets cut (top).
  ConfigId top_config(ConfigId config, std::uint32_t depth, Work& work);
  // Where the text stands if a terminal with this return set ended here.
  ConfigId after(SetId returns, Work& work);
  // The configuration with these of its open terminals alone.
  ConfigId only(ConfigId config, std::span<const Item> items, Work& work);

  std::span<const std::uint32_t> nodes(SetId set) const {
    return std::span(set_nodes_).subspan(set_offsets_[set], set_offsets_[set + 1] - set_offsets_[set]);
  }
  std::uint32_t node_state(std::uint32_t node) const { return nodes_[node].state; }
  SetId node_below(std::uint32_t node) const { return nodes_[node].below; }
  // The names that the node's run of its rule has read, and the one that is being read there.
  NameSet node_names(std::uint32_t node) const { return nodes_[node].names; }
  NameText node_reading(std::uint32_t node) const { return nodes_[node].reading; }
  Names& names() { return names_; }
  // The only name that a `distinct` edge reads, or kNotReading.
  NameText fixed_name(std::uint32_t label) const { return fixed_[label]; }
  // Whether a guard passes after these names. Where they are not known, it passes if they may be any.
  bool passes(std::uint32_t guard, NameSet names, Work& work) const;
  std::span<const NameText> guarded(std::uint32_t guard) const {
    return std::span(guarded_).subspan(guarded_offsets_[guard], guarded_offsets_[guard + 1] - guarded_offsets_[guard]);
  }
  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::size_t config_count() const { return configs_.size(); }
  std::size_t bytes() const;
  // Tables that were outgrown, which others may still read.
  bool has_old() const { return steps_.has_old() || token_ends_.has_old(); }
  void drop_old() {
    steps_.drop_old();
    token_ends_.drop_old();
  }

 private:
  static constexpr SetId kCutSet = 1;
  static constexpr std::uint32_t kUncounted = kNone;
  static constexpr std::uint32_t kUntouched = 1u << 30;  // beside the number: the terminal has read nothing yet
  struct Node {
    std::uint32_t state;
    SetId below;
    NameSet names = Names::kNoNames;
    NameText reading = Names::kNotReading;
    std::uint32_t tokens = kUncounted;
    friend bool operator==(const Node&, const Node&) = default;
  };
  struct Config {
    std::uint32_t first, terms, tokens;
    bool reached_cut, left_out, doubtful;
    ConfigId next = kNone;
  };
  // Return sets by label, while a configuration is built.
  struct Draft {
    std::vector<Item> terms, tokens;
    bool accepting = false, reached_cut = false, left_out = false;
    ConfigId next = kNone;
  };

  void check_memory() const;
  Draft& fresh_draft();
  std::uint32_t intern_node(const Node& node);
  SetId intern_set(std::vector<std::uint32_t>& nodes, Work& work);
  SetId intern_sorted(std::span<const std::uint32_t> nodes, Work& work);
  SetId unite(SetId x, SetId y, Work& work);
  ConfigId intern_config(Draft& draft, Work& work);
  ConfigId keep_open(Draft& draft, std::span<const SetId> ended, Work& work);
  SetId count_token(SetId set, bool may_end, Work& work);
  void gather(std::vector<Item>& items, Work& work);
  // match/closure.cpp
  void close(std::span<const SetId> ended, bool at_start, Draft& draft, Work& work);
  void pop(std::span<const SetId> ended, bool at_start, Draft& draft, Work& work);
  void push(Draft& draft, Work& work);
  void expand(std::uint32_t state, SetId below, NameSet names, Draft& draft, Work& work);

  Network& network_;
  Lexicon& lexicon_;
  Names names_;
  std::vector<NameText> fixed_;                    // by the label of a `distinct` edge
  std::vector<NameText> guarded_;                  // the names of all guards, each guard's sorted
  std::vector<std::uint32_t> guarded_offsets_{0};  // by guard
  std::uint64_t max_items_, max_bytes_;
  bool longest_;
  std::optional<NameSpelling> name_spelling_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> set_nodes_, set_offsets_;
  enum Reads : std::uint8_t { kNothing = 0, kName = 1, kUnreadName = 2, kCount = 4, kNoToken = 8 };  // bits
  std::vector<std::uint8_t> set_reads_;  // by set: what its nodes are reading
  std::vector<Config> configs_;
  Stable<std::uint8_t> accepting_;  // by configuration
  std::vector<Item> items_;
  IdTable node_ids_, set_ids_, config_ids_;
  KnownMap steps_, token_ends_;
  StepMap after_, tops_;
  std::vector<std::uint32_t> first_of_;  // by configuration, kNone where not asked for yet
  std::vector<ByteSet> firsts_;
  // What one step needs, kept for its memory.
  Draft draft_, open_;
  std::vector<SetId> ended_;
  Closure closure_;
};

}  // namespace narrows
