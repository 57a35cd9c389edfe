// What is gathered on the way from terminals that have just ended to all that may come next (Stacks::close). One object
// is used for all steps, for its memory: most steps reach a few places and call a few rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "intern.hpp"
#include "match/names.hpp"

namespace narrows {

using SetId = std::uint32_t;

// Numbers for pairs of ids, in the order in which they are met. While there are few, finding one is looking at all.
class PairIndex {
 public:
  void clear() {
    if (keys_.size() > kFew) ids_.clear();
    keys_.clear();
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(keys_.size()); }
  std::uint32_t find(std::uint32_t x, std::uint32_t y) const {
    const std::uint64_t key = make_key(x, y);
    if (keys_.size() > kFew) return ids_.find(mix(1, key), [&](std::uint32_t i) { return keys_[i] == key; });
    for (std::uint32_t i = 0; i < keys_.size(); ++i)
      if (keys_[i] == key) return i;
    return kNone;
  }
  // Adds a pair that find() did not see.
  std::uint32_t add(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t made = size();
    keys_.push_back(make_key(x, y));
    if (size() == kFew + 1) {
      for (std::uint32_t i = 0; i < size(); ++i) ids_.insert(mix(1, keys_[i]), i);
    } else if (size() > kFew) {
      ids_.insert(mix(1, keys_[made]), made);
    }
    return made;
  }
  std::pair<std::uint32_t, std::uint32_t> operator[](std::uint32_t i) const {
    return {static_cast<std::uint32_t>(keys_[i] >> 32), static_cast<std::uint32_t>(keys_[i])};
  }
  // From now on find() does not see it.
  void forget(std::uint32_t i) { keys_[i] = make_key(kNone, kNone); }

 private:
  static constexpr std::uint32_t kFew = 12;
  static std::uint64_t make_key(std::uint32_t x, std::uint32_t y) { return (static_cast<std::uint64_t>(x) << 32) | y; }
  std::vector<std::uint64_t> keys_;
  IdTable ids_;
};

class Closure {
 public:
  // A state that is reached, with the names that this run of its rule has read.
  struct Place {
    std::vector<std::uint32_t> below;  // nodes
    std::size_t popped = 0;            // how many of them have been gone through, where the state ends its rule
  };
  // Who calls a rule: nodes, and sets of nodes.
  struct Callers {
    std::vector<std::uint32_t> nodes;
    std::vector<SetId> sets;
  };

  void clear() {
    if (pairs_.size() > kKept) *this = {};
    place_ids_.clear();
    pairs_.clear();
    call_ids_.clear();
    open_.clear();
    waiting_.clear();
  }

  // Adds nodes below a place, which is open if some of them are new.
  void reach(std::uint32_t state, NameSet names, std::span<const std::uint32_t> below) {
    std::uint32_t at = place_ids_.find(state, names);
    if (at == kNone) {
      at = place_ids_.add(state, names);
      if (at == places_.size()) places_.emplace_back();
      places_[at].below.clear();
      places_[at].popped = 0;
    }
    bool grew = false;
    for (std::uint32_t node : below) {
      if (pairs_.find(at, node) != kNone) continue;
      pairs_.add(at, node);
      places_[at].below.push_back(node);
      grew = true;
    }
    if (grew) open_.push_back(at);
  }
  std::uint32_t place_count() const { return place_ids_.size(); }
  // Its state and names.
  std::pair<std::uint32_t, NameSet> place(std::uint32_t at) const { return place_ids_[at]; }
  std::vector<std::uint32_t>& below(std::uint32_t at) { return places_[at].below; }
  // A place with new nodes; kNone where there is none.
  std::uint32_t next_open() {
    if (open_.empty()) return kNone;
    const std::uint32_t at = open_.back();
    open_.pop_back();
    return at;
  }
  // The next of a place's nodes; kNone when all have been gone through.
  std::uint32_t next_below(std::uint32_t at) {
    Place& p = places_[at];
    return p.popped < p.below.size() ? p.below[p.popped++] : kNone;
  }

  // Those who call a rule. It waits for its turn, by rank; valid until the next call of this function.
  Callers& callers(std::uint32_t rank, std::uint32_t rule) {
    std::uint32_t at = call_ids_.find(rank, rule);
    if (at == kNone) {
      at = call_ids_.add(rank, rule);
      if (at == calls_.size()) calls_.emplace_back();
      calls_[at].nodes.clear();
      calls_[at].sets.clear();
      waiting_.emplace_back(rank, at);
      std::ranges::push_heap(waiting_, std::greater<>{});
    }
    return calls_[at];
  }
  // The index of the call of least rank that waits, which is over with that; kNone where there is none.
  std::uint32_t next_call() {
    if (waiting_.empty()) return kNone;
    std::ranges::pop_heap(waiting_, std::greater<>{});
    const std::uint32_t at = waiting_.back().second;
    waiting_.pop_back();
    return at;
  }
  std::uint32_t rule(std::uint32_t call) const { return call_ids_[call].second; }
  Callers& call(std::uint32_t call) { return calls_[call]; }
  void end_call(std::uint32_t call) { call_ids_.forget(call); }

  std::vector<std::uint32_t> through;  // where the guards that pass at a place lead
  std::vector<std::uint32_t> starts;   // of a rule that is called

 private:
  static constexpr std::size_t kKept = 10'000;
  PairIndex place_ids_, pairs_, call_ids_;  // (state, names); (place, node); (rank, rule)
  std::vector<Place> places_;               // the first place_count() of them
  std::vector<Callers> calls_;
  std::vector<std::uint32_t> open_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting_;  // a heap of (rank, call)
};

}  // namespace narrows
