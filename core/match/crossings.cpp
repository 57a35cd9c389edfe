// The tokens that end a terminal and go on with what follows it.
//
// They begin at the crossings of the terminal's record, and depend on the top of the stack alone. So each list is made
// once for a term and a top. Tokens that also depend on the names that were read before are kept apart: most of them
// read one whole name, and are decided by it. The others are stepped through for each set of names.
#include <algorithm>
#include <iterator>

#include "match/constraint.hpp"
#include "sort_ids.hpp"

namespace narrows {

namespace {
// Room that most walks need no more than.
constexpr std::size_t kUsualDepth = 16, kUsualTokens = 64;
}  // namespace

// The list of tokens that end the terminal somewhere inside and go on with what follows it. They depend on the top of
// the stack alone, as far down as the tokens reach. Most do not reach far: their list is the same for all places with
// such a top. The others are walked again with more of the stack, and have a list of their own, with that list as its
// part. Few tokens depend on the names that were read: those that end the next name, too. They are kept apart.
std::uint32_t Constraint::cross(TermId term, SetId returns, Work& spare) {
  TermId of = lexicon().inside(term, spare).crossings_of;
  if (lexicon().inside(of, spare).crossings.empty()) return kNone;
  if (walks_nested(of, spare)) of = term;  // that depends on the term's own record
  std::uint32_t before = kNone;
  for (std::uint32_t depth = 2;; depth *= 2) {
    const SetId top = stacks_->top(returns, depth, Names::kUnknown, spare);
    const std::uint32_t known = cross_top(of, returns, top, depth, before, spare);
    const CrossLists::List& list = cross_lists_[known];
    if (list.is_all()) return list.is_empty() ? kNone : known;
    if (!list.reached_cut) before = known;
  }
}

// The list for one depth of the stack. `before`: that of a smaller depth, which is part of it, or kNone.
std::uint32_t Constraint::cross_top(TermId term, SetId returns, SetId top, std::uint32_t depth, std::uint32_t before,
                                    Work& spare) {
  if (const std::uint32_t known = crossed_.find(term, top); known != kNone) return known;
  CrossWalk found = walk_crossings(top, term, false, depth, before, spare);
  if (found.left_out && found.is_all()) {
    const SetId any = stacks_->top(returns, depth, Names::kAny, spare);
    const CrossWalk all = walk_crossings(any, term, true, depth, before, spare);
    found.reached_cut = !all.is_all();
    sort_ids(found.tokens, vocabulary_->size());
    spare.spend(4 * (found.tokens.size() + all.undecided.size()));
    std::ranges::copy_if(all.undecided, std::back_inserter(found.undecided),
                         [&](const Undecided& u) { return !std::ranges::binary_search(found.tokens, u.token); });
  }
  found.reached_cut = found.reached_cut || (found.left_out && !found.is_all());
  if (before != kNone && !cross_lists_[before].is_empty()) found.parts.emplace_back(kNever, before);
  const std::uint32_t made = cross_lists_.add(found, depth);
  crossed_.insert(term, top, made);
  return made;
}

// The tokens of a list's undecided ones that are allowed with these names: a list of its own, kNone where there are
// none.
std::uint32_t Constraint::decide(std::uint32_t list, SetId returns, Work& spare) {
  constexpr std::uint32_t kNoList = kNone - 1;
  std::uint32_t known = decided_.find(list, returns);
  if (known == kNone) {
    std::vector<std::uint32_t> allowed;
    std::vector<NameSet> read;
    const bool is_read = stacks_->names_above(returns, cross_lists_[list].depth, read, spare);
    for (const Undecided& u : cross_lists_.undecided(list)) {
      spare.spend(2 + read.size());
      if (is_read && u.name != kNone &&
          std::ranges::none_of(read, [&](NameSet names) { return stacks_->names().has(names, u.name); })) {
        allowed.push_back(u.token);
        continue;
      }
      check_memory();
      const auto bytes = vocabulary_->trie().token(u.token);
      SetId ended = returns;
      for (std::uint8_t b : bytes.first(u.head)) ended = stacks_->read_on(ended, b, spare);
      spare.spend(2 + bytes.size());
      if (step_bytes(stacks_->after(ended, spare), bytes.subspan(u.head), spare) != kDead) allowed.push_back(u.token);
    }
    const std::uint64_t hash = hash_words(4, allowed);
    known = allowed.empty() ? kNoList : decided_ids_.find(hash, [&](std::uint32_t id) {
      return std::ranges::equal(cross_lists_.tokens(id), allowed);
    });
    if (known == kNone) {
      CrossWalk found;
      found.tokens = std::move(allowed);
      known = cross_lists_.add(found, 0);
      decided_ids_.insert(hash, known);
    }
    decided_.insert(list, returns, known);
  }
  return known == kNoList ? kNone : known;
}

// Some reading stays where it is whatever of these bytes come: all tokens that go on with them are allowed.
bool Constraint::takes_all(ConfigId config, Groups bytes, Work& spare) {
  return std::ranges::any_of(stacks_->items(config), [&](const Item& item) {
    spare.spend(2);
    const Op op = lexicon().terms()[item.label].op;
    return op != Op::literals && op != Op::substrings && (bytes & ~lexicon().loops(item.label, spare)) == 0 &&
           !stacks_->doubtful(item, spare);
  });
}

// The texts after white space that many tokens begin, as records (automata/gaps.cpp). Returns the configuration without
// them.
ConfigId Constraint::split_texts(TermId gap, ConfigId after, std::uint32_t depth, CrossWalk& found, Work& spare) {
  const std::vector<Item> items(stacks_->items(after).begin(), stacks_->items(after).end());
  std::vector<Item> others;
  for (const Item& item : items) {
    const TermId both = lexicon().with_text(gap, item.label, spare);
    if (both == kNone) {
      others.push_back(item);
      continue;
    }
    const TermId of = lexicon().inside(both, spare).crossings_of;
    std::uint32_t list = kNone;
    if (!lexicon().inside(of, spare).crossings.empty()) {
      list = cross_top(walks_nested(of, spare) ? both : of, item.returns, item.returns, depth, kNone, spare);
      found.reached_cut = !cross_lists_[list].is_all();
      if (found.reached_cut) return kDead;
    }
    found.parts.emplace_back(both, list);
  }
  return found.parts.empty() ? after : stacks_->only(after, others, spare);
}

// Ends early, with no more than that said, where the stack was cut too high for all tokens. `before`: what is known from
// a list for less of the stack is left out.
CrossWalk Constraint::walk_crossings(SetId returns, TermId term, bool any_names, std::uint32_t depth,
                                     std::uint32_t before, Work& spare) {
  const Trie& trie = vocabulary_->trie();
  CrossWalk found;
  found.any_names = any_names;
  found.tokens.reserve(kUsualTokens);
  ConfigId after = stacks_->after(returns, spare);
  found.reached_cut = stacks_->reached_cut(after);
  found.left_out = stacks_->left_out(after);
  if (found.reached_cut || stacks_->items(after).empty()) return found;
  const TermId crossings_of = lexicon().inside(term, spare).crossings_of;
  if (before == kNone && crossings_of == term && !stacks_->has_names() && lexicon().is_gap(term, spare))
    after = split_texts(term, after, depth, found, spare);
  if (found.reached_cut || after == kDead) return found;
  const auto unknown = [&](const Tree& tree, bool is_merged) {
    if (before == kNone) return Region();
    return Region(tree, is_merged ? cross_lists_.merged_unknown(before) : cross_lists_.unknown(before));
  };
  Region region = unknown(trie, false);
  if (walks_nested(crossings_of, spare)) {
    walk_nested(term, after, region, found, spare);
    return found;
  }
  const ByteSet first = stacks_->first(after, spare);
  const bool may_be_merged = before == kNone || cross_lists_[before].is_merged;
  const Beyond* beyond = may_be_merged ? lexicon().beyond(crossings_of, spare) : nullptr;
  found.is_merged = beyond != nullptr;
  if (beyond != nullptr)
    walk_beyond(beyond->merged, 0, after, first, unknown(beyond->merged, true), found, found.merged_unknown, spare);
  const Groups first_groups = groups_of(first);
  const auto& crossings = beyond != nullptr ? beyond->great : lexicon().inside(crossings_of, spare).crossings;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (i % 64 == 0) check_memory();
    spare.spend(1);
    if ((trie.groups_below(crossings[i]) & first_groups) == 0) continue;
    if (region.place(crossings[i]) == Region::Place::outside) continue;
    walk_beyond(trie, crossings[i], after, first, region, found, found.unknown, spare);
  }
  std::ranges::sort(found.unknown);  // crossings may lie below each other
  found.unknown.erase(std::unique(found.unknown.begin(), found.unknown.end()), found.unknown.end());
  return found;
}

bool Constraint::walks_nested(TermId crossings_of, Work& spare) {
  return !stacks_->has_names() && lexicon().has_much_beyond(crossings_of, spare);
}

// All tokens beyond many crossings, in one pass over the trie. Crossings may lie below each other: there, all readings
// are followed together, so that no node is visited twice. What is all in the term's own record is left out: its mask
// has that, too.
void Constraint::walk_nested(TermId term, ConfigId after, Region region, CrossWalk& found, Work& spare) {
  struct Open {
    std::uint32_t end;
    ConfigId config;  // kDead: no reading is here, but there are crossings below
    ByteSet first;
  };
  const Trie& trie = vocabulary_->trie();
  const ByteSet first_after = stacks_->first(after, spare);
  const Groups groups_after = groups_of(first_after);
  const Inside& record = lexicon().inside(term, spare);
  const auto crossings = lexicon().needed_crossings(term, spare);
  const bool is_dense = record.dense != kNone && record.lacks.empty();
  const auto inside = is_dense ? lexicon().dense(record.dense) : std::span<const std::uint32_t>();
  const auto is_inside = [&](std::uint32_t t) { return ((inside[t >> 5] >> (t & 31)) & 1) != 0; };
  spare.spend(crossings.size() / 8);
  StepMap merged;  // with `after`
  std::vector<Open> path{{trie.end(0), kDead, {}}};
  auto crossing = crossings.begin();  // the first that is not passed
  std::uint32_t passed = 0;
  for (std::uint32_t node = 1; node < trie.end(0);) {
    while (node >= path.back().end) path.pop_back();
    const Open& above = path.back();
    if (++passed % 4'096 == 0) check_memory();
    spare.spend(1);
    if (above.config == kDead) {  // nothing but a crossing counts
      while (crossing != crossings.end() && (trie.groups_below(*crossing) & groups_after) == 0) ++crossing;
      node = crossing == crossings.end() ? above.end : std::min(*crossing, above.end);
      if (node == above.end) continue;
    }
    const std::uint32_t end = trie.end(node);
    const std::uint8_t byte = trie.byte(node);
    while (crossing != crossings.end() && *crossing < node) ++crossing;
    const Region::Place place = region.place(node);
    if (place == Region::Place::outside) {
      crossing = std::lower_bound(crossing, crossings.end(), end);
      node = end;
      continue;
    }
    const bool crosses =
        crossing != crossings.end() && *crossing == node && (trie.groups_below(node) & groups_after) != 0;
    const bool may_be_inside = is_dense && end > node + 8 && (crossing == crossings.end() || *crossing >= end);
    if (may_be_inside && std::ranges::all_of(trie.tokens_below(node), is_inside)) {
      spare.spend(trie.tokens_below(node).size() / 4);
      node = end;
      continue;
    }
    ConfigId next = above.config != kDead && above.first.has(byte) ? stacks_->step(above.config, byte, spare) : kDead;
    if (next != kDead) {
      const bool reached_cut = stacks_->reached_cut(next);
      if (reached_cut) found.unknown.push_back(node);
      const bool adds = place == Region::Place::inside && !reached_cut;
      const bool all = adds && end > node + 8 && takes_all(next, trie.groups_below(node), spare);
      if (adds) {
        const auto tokens = all ? trie.tokens_below(node) : trie.tokens_at(node);
        spare.spend(tokens.size() / 4);
        found.tokens.insert(found.tokens.end(), tokens.begin(), tokens.end());
      }
      if (all || reached_cut) {
        crossing = std::lower_bound(crossing, crossings.end(), end);
        node = end;
        continue;
      }
      if (crosses) {
        std::uint32_t both = merged.find(next, 0);
        if (both == kNone) merged.insert(next, 0, both = stacks_->merge(next, after, spare));
        next = both;
      }
    } else if (crosses) {
      next = after;
    } else if (crossing == crossings.end() || *crossing >= end) {
      node = end;
      continue;
    }
    ++node;
    if (node == end) continue;
    const bool asks = next != kDead && trie.end(node) < end;  // an only child need not be asked for
    path.push_back({end, next, asks ? stacks_->first(next, spare) : ByteSet::all()});
  }
}

// All tokens below a node, which the configuration has reached. Its first bytes are known.
void Constraint::walk_beyond(const Tree& tree, std::uint32_t root, ConfigId config, const ByteSet& first, Region region,
                             CrossWalk& found, std::vector<std::uint32_t>& unknown, Work& spare) {
  struct Open {
    std::uint32_t end;
    ConfigId config;
    ByteSet first;
    Groups stays;  // of bytes that lead back to the configuration
    bool all;      // whatever comes is allowed
    NameRead name;
  };
  NameRead name;
  if (found.any_names) follow(name, config, 0);
  std::vector<Open> path;
  path.reserve(kUsualDepth);
  path.push_back({tree.end(root), config, first, stacks_->stays(config, spare), false, name});
  for (std::uint32_t node = root + 1; node < tree.end(root);) {
    while (node >= path.back().end) path.pop_back();
    const Open& above = path.back();
    std::uint32_t passed = 1;
    for (; !above.first.has(tree.byte(node)) && tree.end(node) < above.end; ++passed) node = tree.end(node);
    spare.spend(1 + passed);
    const std::uint8_t byte = tree.byte(node);
    const std::uint32_t end = tree.end(node);
    const Region::Place place = region.place(node);
    const bool stays = above.all || (above.stays & group_of(byte)) != 0;
    const ConfigId next = place == Region::Place::outside ? kDead
                          : stays                         ? above.config
                          : above.first.has(byte)         ? stacks_->step(above.config, byte, spare)
                                                          : kDead;
    if (next == kDead) {
      node = end;
      continue;
    }
    if (stacks_->reached_cut(next)) {
      unknown.push_back(node);
      node = end;
      continue;
    }
    const bool doubtful = stacks_->doubtful(next);
    found.left_out = found.left_out || doubtful || stacks_->left_out(next);
    const bool is_inside = place == Region::Place::inside;
    const bool all = above.all || (is_inside && end > node + 8 && takes_all(next, tree.groups_below(node), spare));
    if (found.any_names) {
      const auto depth = static_cast<std::uint32_t>(path.size());
      name = above.name;
      follow(name, next, depth);
      name.unclear = name.unclear || all;
      for (std::uint32_t t : is_inside ? tree.tokens_at(node) : std::span<const std::uint32_t>()) {
        const auto bytes = vocabulary_->trie().token(t);
        const auto head = static_cast<std::uint32_t>(bytes.size() - depth);
        if (!doubtful) found.undecided.push_back({t, head, name_in(name, bytes.subspan(head), spare)});
      }
    } else if (is_inside && !doubtful) {
      const auto tokens = all ? tree.tokens_below(node) : tree.tokens_at(node);
      spare.spend(tokens.size() / 4);
      found.tokens.insert(found.tokens.end(), tokens.begin(), tokens.end());
    }
    if (all && !found.any_names) {
      node = end;
      continue;
    }
    ++node;
    if (node == end) continue;
    if (stays) {
      path.push_back({end, next, above.first, above.stays, all, name});
      continue;
    }
    // An only child need not be asked for.
    const bool asks = !all && tree.end(node) < end;
    path.push_back({end, next, asks ? stacks_->first(next, spare) : ByteSet::all(),
                    asks ? stacks_->stays(next, spare) : 0, all, name});
  }
}

// What the name is known to be after one byte more.
void Constraint::follow(NameRead& name, ConfigId config, std::uint32_t depth) const {
  const auto readings = stacks_->name_readings(config);
  if (readings == Stacks::NameReadings::none) {
    if (name.begun && name.ended == 0) name.ended = depth;
  } else if (readings == Stacks::NameReadings::all && name.ended == 0) {
    name.begun = true;
  } else {
    name.unclear = name.unclear || name.begun;
  }
}

// The name that a token has read, if all readings have read it, and if no other name and no guard counts: it begins at
// the last quote before its end. Else, or where an escape makes this less plain, kNone.
std::uint32_t Constraint::name_in(const NameRead& name, std::span<const std::uint8_t> tail, Work& spare) {
  const auto spelling = stacks_->name_spelling();
  if (name.unclear || name.ended < 2 || !spelling || !network_->guards().empty()) return kNone;
  const std::uint8_t mark = quote(*spelling);
  const auto text = tail.first(name.ended);
  spare.spend(4 + text.size());
  if (text.back() != mark || std::ranges::find(text, '\\') != text.end()) return kNone;
  auto from = text.size() - 1;
  while (from > 0 && text[from - 1] != mark) --from;
  return from == 0 ? kNone : stacks_->names().spelled(text.subspan(from - 1), *spelling);
}

}  // namespace narrows
