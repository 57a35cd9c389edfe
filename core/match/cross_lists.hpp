// Lists of the tokens that leave a terminal, as walks have found them (match/crossings.cpp, match/longest.cpp).
//
// They are only ever added to, in flat arrays. A list may have others as its parts, which were there before it. So what
// many places have in common is kept once.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "automata/terms.hpp"
#include "intern.hpp"

namespace narrows {

// A token that depends on the names that were read before.
struct Undecided {
  std::uint32_t token;
  std::uint32_t head;  // its bytes before the place where it leaves the terminal
  std::uint32_t name;  // all that it depends on is that this one was not read; kNone where this is not known
};

// A record whose tokens leave a terminal, and the list of those that leave it in turn, or kNone. Or no record (kNever),
// and the list that was made for less of the stack.
using CrossPart = std::pair<TermId, std::uint32_t>;

// The tokens that leave a terminal, as one walk found them.
struct CrossWalk {
  bool any_names = false;  // names that are not known may be any
  std::vector<std::uint32_t> tokens;
  std::vector<CrossPart> parts;      // more tokens
  std::vector<Undecided> undecided;  // if the names may be any: the tokens, in place of that
  bool reached_cut = false;          // some reading reached the cut of the stack: nothing is known
  bool left_out = false;             // the names that were read decide about more tokens
  bool is_merged = false;            // what is below the crossings was laid over each other for it
  // Nodes of that tree, and of the vocabulary's, at which a reading reached the cut: what is there and below them is not
  // known.
  std::vector<std::uint32_t> merged_unknown, unknown;

  bool is_all() const { return !reached_cut && merged_unknown.empty() && unknown.empty(); }
};

class CrossLists {
 public:
  struct List {
    std::uint32_t first_token = 0, tokens = 0;
    std::uint32_t first_part = 0, parts = 0;
    std::uint32_t first_undecided = 0, undecided = 0;
    std::uint32_t first_unknown = 0, merged_unknown = 0, unknown = 0;
    std::uint32_t depth = 0;  // of the stack, which no token reads beyond
    bool reached_cut = false, is_merged = false;

    bool is_all() const { return !reached_cut && merged_unknown + unknown == 0; }
    bool is_empty() const { return tokens == 0 && parts == 0 && undecided == 0; }
  };

  // The list of what a walk has found with so much of the stack. Of one that reached the cut it says no more than that.
  std::uint32_t add(const CrossWalk& walk, std::uint32_t depth) {
    List list;
    list.depth = depth;
    list.reached_cut = walk.reached_cut;
    list.is_merged = walk.is_merged;
    if (!walk.reached_cut) {
      append(tokens_, walk.tokens, list.first_token, list.tokens);
      append(parts_, walk.parts, list.first_part, list.parts);
      append(undecided_, walk.undecided, list.first_undecided, list.undecided);
      append(unknown_, walk.merged_unknown, list.first_unknown, list.merged_unknown);
      std::uint32_t after_those = 0;
      append(unknown_, walk.unknown, after_those, list.unknown);
    }
    lists_.push_back(list);
    return static_cast<std::uint32_t>(lists_.size() - 1);
  }

  const List& operator[](std::uint32_t list) const { return lists_[list]; }
  // Valid until the next list is added.
  std::span<const std::uint32_t> tokens(std::uint32_t list) const {
    return std::span(tokens_).subspan(lists_[list].first_token, lists_[list].tokens);
  }
  std::span<const CrossPart> parts(std::uint32_t list) const {
    return std::span(parts_).subspan(lists_[list].first_part, lists_[list].parts);
  }
  std::span<const Undecided> undecided(std::uint32_t list) const {
    return std::span(undecided_).subspan(lists_[list].first_undecided, lists_[list].undecided);
  }
  std::span<const std::uint32_t> merged_unknown(std::uint32_t list) const {
    return std::span(unknown_).subspan(lists_[list].first_unknown, lists_[list].merged_unknown);
  }
  std::span<const std::uint32_t> unknown(std::uint32_t list) const {
    return std::span(unknown_).subspan(lists_[list].first_unknown + lists_[list].merged_unknown, lists_[list].unknown);
  }

  std::size_t size() const { return lists_.size(); }
  std::size_t bytes() const { return held(lists_) + held(tokens_) + held(parts_) + held(undecided_) + held(unknown_); }

 private:
  template <class T>
  static void append(std::vector<T>& all, const std::vector<T>& more, std::uint32_t& first, std::uint32_t& count) {
    first = static_cast<std::uint32_t>(all.size());
    count = static_cast<std::uint32_t>(more.size());
    all.insert(all.end(), more.begin(), more.end());
  }

  std::vector<List> lists_;
  std::vector<std::uint32_t> tokens_;
  std::vector<CrossPart> parts_;
  std::vector<Undecided> undecided_;
  std::vector<std::uint32_t> unknown_;  // of each list those of the merged tree first
};

}  // namespace narrows
