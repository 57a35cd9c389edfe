// How the records of a lexicon are made: the tokens that stay inside a term, and where tokens leave it.
//
// A record is one walk over the coarse trie, or it is made from one that is known: of the text without its bounds, or
// without what it excludes, or of a text that it is like. A walk takes up to some milliseconds for 128,000 tokens; the
// others take as long as what differs.
#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "automata/lexicon.hpp"
#include "sort_ids.hpp"

namespace narrows {

namespace {
constexpr int kTextGroups = 32;  // of 61 groups of bytes
constexpr std::size_t kMostTexts = 4;
constexpr std::uint32_t kMostBeside = 10'000;  // nodes: a walk takes as long, if it stays in the coarse trie
constexpr std::uint64_t kFarRoom = 16;         // bytes: few tokens have more
constexpr std::uint32_t kMostApart = 8;        // of so many nodes one
constexpr std::size_t kMostOpen = 64;          // records that wait for others
}  // namespace

// A term whose record is being made.
class Lexicon::Opened {
 public:
  Opened(std::vector<TermId>& open, TermId id) : open_(open) { open_.push_back(id); }
  ~Opened() { open_.pop_back(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  std::vector<TermId>& open_;
};

const Inside& Lexicon::inside(TermId term, Work& work) {
  const TermId id = clamp_inside(term, work);
  if (id < inside_.size() && inside_[id]) return *inside_[id];
  const Opened opened(open_, id);
  auto made = std::make_unique<Inside>();
  if (terms_[id].op == Op::literals) {
    walk_list(id, *made, work);
    return keep(id, std::move(made));
  }
  if (terms_.is_substrings(id)) {
    walk_substrings(id, *made, work);
    return keep(id, std::move(made));
  }
  if (counted(id, *made, work) || walk_within(within(id, work), *made, work)) return keep(id, std::move(made));
  bool passing = false;
  const Likeness like = known_beside(id, passing, work);
  TermId wider = like.wider;
  // Two terms of one language may each be like the other, and then one of them is walked.
  if (wider != kNone && !may_ask_for(wider, work)) wider = kNone;
  const bool is_beside = wider != kNone && (inside(wider, work).dense != kNone || passing || like.is_close);
  const bool is_coarse = is_beside && !passing && (row(id, work).uneven & kWordGroups) == 0;
  if (!is_beside && walk_within(within_counts(id, work), *made, work)) return keep(id, std::move(made));
  // Near a greatest number there are more such nodes, but a state for each number, and a walk makes a row for each.
  std::uint32_t most = !is_coarse ? kNone : like.until ? kMostBeside : 4 * kMostBeside;
  // Where it is not known how the two differ, it takes no longer than a walk that does without.
  if (is_coarse && like.until && like.unlike == ~Groups{0}) most = std::min(most, inside(wider, work).visited);
  if (!is_beside || !has_few_nodes(like.unlike, most, work) || !walk_beside(id, like, most, *made, work)) {
    *made = {};
    walk(id, *made, work);
    if (is_beside) share_dense(*made, inside(wider, work), work);
    const Term& t = terms_[id];
    if (texts_.size() < kMostTexts && made->dense != kNone && t.plain && t.op == Op::cat && is_text(row(id, work)) &&
        terms_[t.a].op == Op::repeat)
      texts_.push_back(id);
  }
  return keep(id, std::move(made));
}

// The term whose record the one of this term can be made beside; kNone where there is none.
Lexicon::Likeness Lexicon::known_beside(TermId id, bool& passing, Work& work) {
  if (const Likeness like = until_closed(id, work); like.wider != kNone) return like;
  TermId wider = wider_of(id, work);
  passing = wider != kNone && is_passing(id, work);
  if (!passing && without_most(id, 0, work) == kNone)
    if (const TermId far = without_bounds(id, work).wider; far != kNone)
      return {.wider = far, .unlike = ~Groups{0}, .until = false, .way = inside_[far]->way};
  while (wider != kNone && !passing && !terms_[wider].plain) wider = wider_of(wider, work);
  if (wider != kNone) {
    const Groups unlike = parting(id, wider, work);
    if (!passing && unlike == ~Groups{0} && !meets_soon(id, wider, work))
      if (const Likeness like = likeness(id, work); like.wider != kNone) return like;
    return {.wider = wider, .unlike = unlike, .until = true};
  }
  if (const TermId within = without_most(id, 0, work); within != kNone)
    return {.wider = within, .unlike = ~Groups{0}, .until = false};
  const Unbounded more = uncounted(id, work);
  if (more.wider != kNone && (more.room >= kFarRoom || is_text(row(id, work))))
    return {.wider = more.wider, .unlike = ~Groups{0}, .until = false};
  if (const Likeness like = text_before_more(id, work); like.wider != kNone) return like;
  return likeness(id, work);
}

// Whether most tokens begin with a byte that leads both to the same state, as where a text may not begin with a word.
bool Lexicon::meets_soon(TermId term, TermId wider, Work& work) {
  const Row &mine = row(term, work), &other = row(wider, work);
  const Trie& trie = *trie_;
  std::uint32_t apart = 0;
  for (std::uint32_t node = 1; node < trie.size(); node = trie.end(node)) {
    const TermId next = mine.next[trie.byte(node)];
    if (next != kNever && next != other.next[trie.byte(node)]) apart += trie.end(node) - node;
  }
  work.spend(256);
  return apart < trie.size() / kMostApart;
}

// Whether the record of a term may be made now, while others wait for it.
bool Lexicon::may_ask_for(TermId term, Work& work) {
  return open_.size() <= kMostOpen && !is_open(clamp_inside(term, work));
}

bool Lexicon::is_open(TermId id) const { return std::ranges::find(open_, id) != open_.end(); }

const Inside& Lexicon::keep(TermId id, std::unique_ptr<Inside> made) {
  if (inside_.size() <= id) inside_.resize(terms_.size());
  if (made->crossings_of == kNever) made->crossings_of = id;
  for (auto* list : {&made->tokens, &made->lacks, &made->crossings}) {
    list->shrink_to_fit();
    inside_bytes_ += held(*list);
  }
  inside_bytes_ += sizeof(Inside) + kHeapBlock;
  ++inside_count_;
  crossing_count_ += made->crossings.size();
  inside_[id] = std::move(made);
  return *inside_[id];
}

// Whether a walk that leaves what is below nodes without these groups of bytes visits at most so many nodes. That may
// not be said of all groups: a walk beside another record ends sooner where the two are the same.
bool Lexicon::has_few_nodes(Groups groups, std::uint32_t most, Work& work) const {
  if (groups == ~Groups{0} || most == kNone) return true;
  std::uint32_t seen = 0;
  for (std::uint32_t node = 1; node < trie_->size() && seen <= most; ++seen)
    node = (trie_->groups_below(node) & groups) == 0 ? trie_->end(node) : node + 1;
  work.spend(seen / 4);
  return seen <= most;
}

// Some character of a text: most bytes may begin it.
bool Lexicon::is_text(const Row& item) { return std::popcount(item.first_groups) >= kTextGroups; }

// Sets the scratch bits to a record's tokens.
void Lexicon::load(const Inside& record) {
  if (record.dense != kNone) {
    const auto bits = dense(record.dense);
    scratch_.assign(bits.begin(), bits.end());
  } else {
    scratch_.assign(mask_words_, 0);
  }
  for (std::uint32_t t : record.tokens) scratch_[t >> 5] |= 1u << (t & 31);
  for (std::uint32_t t : record.lacks) scratch_[t >> 5] &= ~(1u << (t & 31));
}

// Refers to the bits of a wider record, rather than having bits of its own, if it lacks few of these.
void Lexicon::share_dense(Inside& made, const Inside& wider, Work& work) {
  share_crossings(made, wider.crossings_of, work);
  if (made.dense == kNone) return;
  work.spend(mask_words_ / 8);
  const auto mine = dense(made.dense), all = dense(wider.dense);
  std::vector<std::uint32_t> lacks;
  for (std::uint32_t w = 0; w < mask_words_; ++w) {
    if ((mine[w] & ~all[w]) != 0 || lacks.size() > mask_words_ / 4) return;
    for (std::uint32_t left = all[w] & ~mine[w]; left != 0; left &= left - 1)
      lacks.push_back(32 * w + static_cast<std::uint32_t>(std::countr_zero(left)));
  }
  dense_.pop_back();  // it was the last one
  made.dense = wider.dense;
  made.lacks = std::move(lacks);
}

// How many items of a repetition each token takes. The items are counted one by one where no item begins another, and
// what follows the repetition begins with other bytes.
const Lexicon::Lane& Lexicon::lane(TermId item, TermId rest, const Inside& uncounted, Work& work) {
  if (const std::uint32_t known = lane_of_.find(item, rest); known != kNone) return *lanes_[known];
  auto made = std::make_unique<Lane>();
  made->counts = count_items(item, rest, uncounted, *made, work);
  if (!made->counts) *made = {};
  lane_bytes_ += sizeof(Lane) + kHeapBlock + held(made->staying) + held(made->leaving) + held(made->crossings);
  lane_of_.insert(item, rest, static_cast<std::uint32_t>(lanes_.size()));
  lanes_.push_back(std::move(made));
  return *lanes_.back();
}

// In linear time: the counts are small.
std::vector<Lexicon::Lane::Counted> Lexicon::by_count(std::span<const Lane::Counted> list) {
  std::vector<std::uint32_t> begins(2, 0);
  for (const Lane::Counted& c : list) {
    if (begins.size() < c.count + 2) begins.resize(c.count + 2, 0);
    ++begins[c.count + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<Lane::Counted> sorted(list.size());
  for (const Lane::Counted& c : list) sorted[begins[c.count]++] = c;
  return sorted;
}

// Where a walk that counts items stands.
struct Lexicon::CountedPlace {
  std::uint32_t end = 0;     // of the subtree
  std::uint32_t count = 0;   // of items that have begun
  const Row* row = nullptr;  // of the item, or what is left of it; or of what follows the repetition
  bool between = true;       // at the end of an item
  bool beyond = false;       // in what follows the repetition
};

// What it needs, and what it has found.
struct Lexicon::Counting {
  const Row &first, &after;       // of an item, and of what follows the repetition
  std::vector<bool> is_crossing;  // by node of the trie
  Lane& made;
  std::uint32_t visited = 0;
};

bool Lexicon::count_items(TermId item, TermId rest, const Inside& uncounted, Lane& made, Work& work) {
  const std::vector<std::uint32_t>& crossings = inside(uncounted.crossings_of, work).crossings;
  Counting counting{row(item, work), row(rest, work), std::vector<bool>(trie_->size()), made};
  if (!(counting.first.first & counting.after.first).empty()) return false;
  for (std::uint32_t node : crossings) counting.is_crossing[node] = true;
  const MergedTree& coarse = trie_->coarse();
  if (!count_nodes(coarse, 1, coarse.size(), {.row = &counting.first}, counting, work)) return false;
  for (auto* list : {&made.staying, &made.leaving}) *list = by_count(*list);
  std::ranges::sort(made.crossings, {}, &Lane::Counted::id);
  made.crossings.shrink_to_fit();
  work.spend(2 * counting.visited + made.staying.size() / 2);
  return true;
}

// Siblings of one of the two trees, and what is below them; `parent`: the place before them.
bool Lexicon::count_nodes(const Tree& tree, std::uint32_t from, std::uint32_t to, const CountedPlace& parent,
                          Counting& counting, Work& work) {
  const MergedTree* coarse = &tree == &trie_->coarse() ? &trie_->coarse() : nullptr;
  Lane& made = counting.made;
  std::vector<CountedPlace> path{parent};
  path.back().end = to;
  for (std::uint32_t node = from; node < to;) {
    while (node >= path.back().end) path.pop_back();
    ++counting.visited;
    CountedPlace here = path.back();
    const std::uint8_t byte = tree.byte(node);
    here.end = tree.end(node);
    const Groups uneven = here.row->uneven | (here.between ? counting.after.uneven : 0);
    if (coarse != nullptr && ((uneven >> kByteGroups[byte]) & 1) != 0) {
      for (std::uint32_t n : coarse->nodes_at(node))
        if (!count_nodes(*trie_, n, trie_->end(n), path.back(), counting, work)) return false;
      node = here.end;
      continue;
    }
    TermId next = here.row->next[byte];
    if (here.between && next == kNever) {
      here.beyond = true;
      next = counting.after.next[byte];
    } else if (here.between) {
      ++here.count;
    }
    if (next == kNever) {
      node = here.end;
      continue;
    }
    here.between = !here.beyond && next == kEmpty;
    if (!here.beyond && !here.between && terms_[next].nullable) return false;
    for (std::uint32_t t : tree.tokens_at(node)) (here.beyond ? made.leaving : made.staying).push_back({t, here.count});
    for (std::uint32_t n : coarse == nullptr ? std::span(&node, 1) : coarse->nodes_at(node))
      if (counting.is_crossing[n]) made.crossings.push_back({n, here.count});
    if (here.end > node + 1) {
      here.row = here.between ? &counting.first : &row(next, work);
      path.push_back(here);
    }
    ++node;
  }
  return true;
}

// The record of a text with a number of characters, or of other items that can be counted: what the text without a
// bound has, but for tokens with too many or too few items. What has too many is a ready mask for each bound. False
// where the items cannot be counted, or where few tokens are in question.
bool Lexicon::counted(TermId id, Inside& made, Work& work) {
  const Term t = terms_[id];
  if (t.op != Op::cat || terms_[t.a].op != Op::repeat) return false;
  const TermId rest = t.b;
  const Term counter = terms_[t.a];
  const std::uint32_t least = counter.b, most = counter.c;
  // With a least number of 1, a few bytes tell the record from the one without: that is found beside it.
  if ((least <= 1 && most == kNoMax) || !terms_[id].plain || terms_[counter.a].nullable || terms_[rest].nullable)
    return false;
  if (most == 0 || !is_text(row(counter.a, work))) return false;
  const TermId without = terms_.cat(terms_.repeat(counter.a, 0, kNoMax), rest);
  const Inside& uncounted = inside(without, work);
  if (uncounted.dense == kNone) return false;
  const Lane& items = lane(counter.a, rest, uncounted, work);
  if (!items.counts) return false;
  const auto too_many = [&](const std::vector<Lane::Counted>& list) {
    return std::span(std::ranges::upper_bound(list, most, {}, &Lane::Counted::count), list.end());
  };
  const auto staying = too_many(items.staying), leaving = too_many(items.leaving);
  made.dense = uncounted.dense;
  made.deepest = uncounted.deepest;
  if (staying.size() + leaving.size() > mask_words_ / 4) {
    // The same bound comes again, with other least numbers.
    const std::uint32_t known = bounded_.find(without, most);
    if (known != kNone) {
      made.dense = known;
    } else {
      load(uncounted);
      for (const auto& list : {staying, leaving})
        for (const Lane::Counted& c : list) scratch_[c.id >> 5] &= ~(1u << (c.id & 31));
      made.dense = keep_dense();
      bounded_.insert(without, most, made.dense);
      work.spend(mask_words_ / 8 + staying.size() / 4);
    }
  } else {
    made.lacks = uncounted.lacks;
    for (const auto& list : {staying, leaving})
      for (const Lane::Counted& c : list) made.lacks.push_back(c.id);
  }
  for (const Lane::Counted& c : items.leaving) {
    if (c.count >= least || c.count > most) break;
    made.lacks.push_back(c.id);
  }
  sort_ids(made.lacks, 32 * mask_words_);
  for (const Lane::Counted& c : items.crossings)
    if (c.count >= least && c.count <= most) made.crossings.push_back(c.id);
  share_crossings(made, uncounted.crossings_of, work);
  work.spend(16 + made.lacks.size() + items.crossings.size());
  return true;
}

// What a walk has found so far.
struct Lexicon::Walk {
  Inside& made;
  std::uint32_t visited = 0;

  void add(std::span<const std::uint32_t> tokens) {
    made.tokens.insert(made.tokens.end(), tokens.begin(), tokens.end());
  }
  void reach(std::size_t depth) { made.deepest = std::max(made.deepest, static_cast<std::uint32_t>(depth)); }
};

// The whole vocabulary, but for subtrees that the automaton cannot enter, or whose every byte leads back to the same
// state. The bytes of a group go together where they lead to the same state.
void Lexicon::walk(TermId start, Inside& made, Work& work) {
  Walk found{made};
  made.deepest = 1;
  walk_nodes(trie_->coarse(), 1, trie_->coarse().size(), row(start, work), 0, found, work);
  made.visited = found.visited;
  work.spend(2 * found.visited);
  settle(made, work);
}

// In order, and many tokens as bits.
void Lexicon::settle(Inside& made, Work& work) {
  sort_ids(made.crossings, trie_->size());
  work.spend(made.tokens.size() / 4);
  if (made.tokens.size() <= mask_words_ / 4) {
    sort_ids(made.tokens, 32 * mask_words_);
    return;
  }
  scratch_.assign(mask_words_, 0);
  for (std::uint32_t t : made.tokens) scratch_[t >> 5] |= 1u << (t & 31);
  made.dense = keep_dense();
  made.tokens.clear();
  made.tokens.shrink_to_fit();
}

// The tokens along a list of strings, which is sorted: no state is made for what is left of it after each byte.
void Lexicon::walk_list(TermId list, Inside& made, Work& work) {
  const auto options = terms_.options(list);
  struct Open {
    std::uint32_t node;
    std::size_t first, last;  // the options that begin with its bytes
    std::uint32_t depth;      // how many these are
  };
  std::uint32_t visited = 0;
  std::vector<Open> open{{0, 0, options.size(), 0}};
  while (!open.empty()) {
    auto [node, first, last, depth] = open.back();
    open.pop_back();
    const auto tokens = trie_->tokens_at(node);
    made.tokens.insert(made.tokens.end(), tokens.begin(), tokens.end());
    if (trie_->end(node) == node + 1) continue;
    made.deepest = std::max(made.deepest, depth + 1);
    if (options[first].size() == depth) {  // ends here
      if (node != 0) made.crossings.push_back(node);
      ++first;
    }
    while (first < last) {
      ++visited;
      const std::uint8_t byte = options[first][depth];
      const auto same = std::ranges::upper_bound(options.begin() + static_cast<std::ptrdiff_t>(first),
                                                 options.begin() + static_cast<std::ptrdiff_t>(last), byte, {},
                                                 [&](const auto& option) { return option[depth]; });
      const auto until = static_cast<std::size_t>(same - options.begin());
      if (const std::uint32_t child = trie_->child(node, byte); child != kNone)
        open.push_back({child, first, until, depth + 1});
      first = until;
    }
  }
  work.spend(4 * options.size() + 16 * visited);
  settle(made, work);
}

// Siblings of one of the two trees, and what is below them. `parent`: the row of the state before them; `depth`: the
// bytes before them.
void Lexicon::walk_nodes(const Tree& tree, std::uint32_t from, std::uint32_t to, const Row& parent, std::size_t depth,
                         Walk& found, Work& work) {
  const MergedTree* coarse = &tree == &trie_->coarse() ? &trie_->coarse() : nullptr;
  Inside& made = found.made;
  struct Open {
    std::uint32_t end;   // of the subtree
    std::uint32_t node;  // where the text may end, if not all of the subtree turns out to stay inside; else kNone
    std::size_t before;  // tokens found before the subtree
    const Row* row;      // of the state at the node
  };
  std::vector<Open> path{{to, kNone, 0, &parent}};
  const auto close = [&] {
    const Open& top = path.back();
    if (top.node != kNone) {
      const std::size_t below = tree.tokens_below(top.node).size() - tree.tokens_at(top.node).size();
      if (made.tokens.size() - top.before < below) {
        const auto nodes = coarse == nullptr ? std::span(&top.node, 1) : coarse->nodes_at(top.node);
        std::ranges::copy_if(nodes, std::back_inserter(made.crossings),
                             [&](std::uint32_t node) { return trie_->end(node) > node + 1; });
      }
    }
    path.pop_back();
  };
  for (std::uint32_t node = from; node < to;) {
    while (node >= path.back().end) close();
    ++found.visited;
    const Row& before = *path.back().row;
    const std::uint32_t end = tree.end(node);
    if (coarse != nullptr && ((before.uneven >> kByteGroups[tree.byte(node)]) & 1) != 0) {
      for (std::uint32_t n : coarse->nodes_at(node))
        if (before.next[trie_->byte(n)] != kNever)
          walk_nodes(*trie_, n, trie_->end(n), before, depth + path.size() - 1, found, work);
      node = end;
      continue;
    }
    const TermId next = before.next[tree.byte(node)];
    if (next == kNever) {
      node = end;
      continue;
    }
    if (end == node + 1) {
      found.add(tree.tokens_at(node));
      ++node;
      continue;
    }
    const Row& r = row(next, work);
    if ((tree.groups_below(node) & ~r.loops) == 0) {
      found.add(tree.tokens_below(node));
      found.reach(depth + path.size() + tree.height(node));
      node = end;
      continue;
    }
    found.add(tree.tokens_at(node));
    found.reach(depth + path.size() + 1);
    path.push_back({end, terms_[next].nullable ? node : kNone, made.tokens.size(), &r});
    ++node;
  }
  while (!path.empty()) close();
}

std::uint32_t Lexicon::keep_dense() {
  dense_.push_back(scratch_);
  return static_cast<std::uint32_t>(dense_.size() - 1);
}

}  // namespace narrows
