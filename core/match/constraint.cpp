#include "match/constraint.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "match/turn.hpp"

namespace narrows {

Vocabulary::Vocabulary(std::vector<std::uint8_t> bytes, std::vector<std::uint64_t> offsets,
                       std::vector<std::uint32_t> end_tokens, std::uint32_t size, std::uint64_t max_bytes)
    : trie_(std::make_shared<const Trie>(std::move(bytes), std::move(offsets))),
      end_tokens_(std::move(end_tokens)),
      size_(size),
      shared_(trie_, mask_words(), max_bytes) {
  if (trie_->token_count() > size_) throw Error("vocabulary_invalid", "the vocabulary has more tokens than its size");
  std::ranges::sort(end_tokens_);
  for (std::uint32_t t : end_tokens_)
    if (t >= size_) throw Error("vocabulary_invalid", "an end token lies outside the vocabulary");
}

bool Vocabulary::ends(std::uint32_t token) const { return std::ranges::binary_search(end_tokens_, token); }

std::unique_ptr<Home> Vocabulary::apart(std::uint64_t most_bytes) const {
  return std::make_unique<Home>(trie_, mask_words(), kNoBound, most_bytes);
}

Constraint::Constraint(std::shared_ptr<Vocabulary> vocabulary, Ir ir, const Limits& limits)
    : vocabulary_(std::move(vocabulary)),
      ir_(std::move(ir)),
      limits_(limits),
      lane_(vocabulary_->shared(), limits.step_work) {
  ir_.check(vocabulary_->size());
  ir_.sort_texts(limits_.constraint_bytes);
  own_bytes_ = sizeof(Constraint) + ir_.bytes();
  named_.resize(vocabulary_->size());
  for (std::uint32_t t : ir_.tokens) named_[t] = true;
  Spent spent;
  try {
    Turn turn(*this, spent);
    lane_.home().make_room();
    build(turn);
    try_out(turn);
    return;
  } catch (const Crowded&) {
    move_apart();
  }
  Turn turn(*this, spent);
  build(turn);
  try_out(turn);
}

// All places of a text together may take half as much as one mask may: what was made before may be dropped, and is then
// made again for it, and other places may take somewhat more. All texts may take twice what one mask may; what is
// left is not tried.
void Constraint::try_out(Turn& turn) {
  std::uint64_t spent = 0;
  for (const Lexicon::Ruled& ruled : lexicon().texts_of_rules(network_->terms(), turn.step())) {
    const std::vector<TermId> places = lexicon().costly_places(ruled, turn.step());
    if (places.empty()) continue;
    lexicon().inside(ruled.begin, turn.step());
    Work& work = turn.step(2);
    const std::uint64_t before = work.left;
    for (const TermId place : places)
      if (lexicon().alive(place, work)) lexicon().inside(place, work);
    spent += before - work.left;
    if (spent / 2 >= limits_.step_work) return;
  }
}

void Constraint::move_apart() {
  std::unique_ptr<Home> made = vocabulary_->apart(2 * limits_.constraint_bytes);
  const auto lock = lane_.turn();
  if (lane_.is_apart()) return;
  const auto alone = lane_.alone();
  lexicon_epoch_ = 0;  // what is remembered refers to the lexicon that is left
  lane_.move(std::move(made));
}

// Where it throws, what was there before stays.
void Constraint::build(Turn& turn) {
  Work& spare = turn.step();
  lexicon().terms().set_max_depth(static_cast<std::uint32_t>(std::min(limits_.term_depth, kMostTermDepth)));
  auto network = std::make_unique<Network>(ir_, lexicon(), limits_, spare);
  if (network->bytes() > limits_.constraint_bytes)
    limit_reached("constraint_bytes", "the compiled grammar alone needs more memory than the limit allows");
  auto stacks = std::make_unique<Stacks>(*network, lexicon(), ir_, limits_);
  const ConfigId start = stacks->start(spare);
  const auto alone = lane_.alone();
  start_ = start;
  stacks_ = std::move(stacks);  // before the network that the old one refers to
  network_ = std::move(network);
  // With their memory: what is kept counts, and a room that is full of nothing has no place for anything.
  mask_of_.clear();
  masks_.clear();
  tokens_bytes_ = 0;
  mask_parts_ = {};
  mask_ids_.clear();
  crossed_.clear();
  cross_lists_ = {};
  decided_.clear();
  decided_ids_.clear();
  dense_ = {};
  lexicon_epoch_ = lane_.home().epoch();
  ++epoch_;
}

void Constraint::rebuild(Turn& turn) {
  if (lane_.is_apart() && fresh()) lane_.home().renew();
  build(turn);
}

bool Constraint::refresh(Turn& turn) {
  home_dropped_ = lane_.home().make_room();
  lexicon().terms().set_max_depth(static_cast<std::uint32_t>(std::min(limits_.term_depth, kMostTermDepth)));
  // Room for twice what one sequence was seen to need: else several that fit alone would drop each other's at every
  // step.
  if (fresh() && counted_ <= room()) return false;
  rebuild(turn);
  return true;
}

std::uint64_t Constraint::room() const { return std::max<std::uint64_t>(limits_.constraint_bytes, 2 * needed_alone_); }

bool Constraint::over_room() const { return remembered() > room(); }

std::size_t Constraint::remembered() const {
  const std::size_t apart = lane_.is_apart() ? lane_.home().lexicon().bytes() : 0;
  if (stacks_ == nullptr) return apart;
  return apart + stacks_->bytes() + network_->bytes() + masks_.bytes() + mask_of_.bytes() + tokens_bytes_ +
         held(dense_) + dense_.size() * (vocabulary_->mask_words() * sizeof(std::uint32_t) + kHeapBlock) +
         held(mask_parts_) + cross_lists_.bytes() + crossed_.bytes() + decided_.bytes() + decided_ids_.bytes() +
         mask_ids_.bytes();
}

void Constraint::drop_old() {
  if (stacks_ == nullptr || !(mask_of_.has_old() || stacks_->has_old())) return;
  const auto alone = lane_.alone();
  mask_of_.drop_old();
  stacks_->drop_old();
}

void Constraint::count() {
  // The lexicon counts the sorted texts, too: the shared one may keep them longer than this.
  const std::size_t twice = lane_.is_apart() ? ir_.text_bytes : 0;
  counted_ = remembered();
  bytes_.store(own_bytes_ + counted_ - twice + held(named_), std::memory_order_relaxed);
  lane_.home().count();
}

void Constraint::check_room(bool alone) {
  const std::uint64_t needed = remembered();
  if (alone && needed > limits_.constraint_bytes)
    limit_reached("constraint_bytes", "one sequence needs more memory than the limit allows");
  needed_alone_ = std::max(needed_alone_, std::min<std::uint64_t>(needed, limits_.constraint_bytes));
  if (home_dropped_) lane_.home().check_room();
}

void Constraint::check_memory() const {
  if (remembered() > 2 * limits_.constraint_bytes)
    limit_reached("constraint_bytes", "one call needs more memory than the limit allows");
}

ConfigId Constraint::step_bytes(ConfigId from, std::span<const std::uint8_t> bytes, Work& spare) {
  ConfigId at = from;
  for (std::uint8_t b : bytes) {
    at = stacks_->step(at, b, spare);
    if (at == kDead) break;
  }
  return at;
}

ConfigId Constraint::step_token(ConfigId from, std::uint32_t token, Work& spare) {
  ConfigId to = kDead;
  if (token < vocabulary_->trie().token_count()) {
    const auto bytes = vocabulary_->trie().token(token);
    if (!bytes.empty()) to = step_bytes(from, bytes, spare);
  }
  if (named_[token]) to = stacks_->merge(to, stacks_->step_token(from, token, spare), spare);
  return stacks_->end_token(to, spare);
}

ConfigId Constraint::known_step(ConfigId from, std::uint32_t token) const {
  if (!fresh() || named_[token] || token >= vocabulary_->trie().token_count()) return kNone;
  const auto bytes = vocabulary_->trie().token(token);
  if (bytes.empty()) return kDead;
  ConfigId at = from;
  for (std::uint8_t b : bytes) {
    at = stacks_->known_step(at, b);
    if (at == kNone || at == kDead) return at;
  }
  return stacks_->known_end_token(at);
}

void Constraint::write(const Mask& mask, std::span<std::uint32_t> row) {
  if (mask.dense.empty()) {
    std::ranges::fill(row, 0u);
  } else {
    std::ranges::copy(mask.dense, row.begin());
  }
  const std::span tokens(mask.tokens);
  for (std::uint32_t t : tokens.first(mask.added)) row[t >> 5] |= 1u << (t & 31);
  for (std::uint32_t t : tokens.subspan(mask.added)) row[t >> 5] &= ~(1u << (t & 31));
}

bool Constraint::known_mask(ConfigId config, std::span<std::uint32_t> row) const {
  if (!fresh()) return false;
  const std::uint32_t known = mask_of_.find(config, 0);
  if (known == kNone) return false;
  write(masks_[known], row);
  return true;
}

void Constraint::mask(ConfigId config, std::span<std::uint32_t> row, Work& spare) {
  if (known_mask(config, row)) return;
  const std::uint32_t made = make_mask(config, spare);
  mask_of_.insert(config, 0, made);
  write(masks_[made], row);
}

// More tokens than this are told apart by bits: setting up a row of bits takes less than sorting them.
constexpr std::size_t kFewTokens = 64;

// Adds tokens to the mask that is being made: to its bits, if it has any, and to the list of what is new. It gets bits
// when that list may be long, so that no token stands there twice.
void Constraint::allow(std::span<const std::uint32_t> tokens, Work& spare) {
  auto& bits = lexicon().mask_bits();
  auto& found = lexicon().mask_tokens();
  const std::size_t words = vocabulary_->mask_words();
  spare.spend(tokens.size() / 4);
  const auto add = [&](std::uint32_t t) {
    const std::uint32_t bit = 1u << (t & 31);
    if (bits[t >> 5] & bit) return;
    bits[t >> 5] |= bit;
    found.push_back(t);
  };
  if (!making_bits_ && found.size() + tokens.size() > std::min(kFewTokens, words)) {
    making_bits_ = true;
    bits.assign(words, 0);
    const std::vector<std::uint32_t> before = found;
    found.clear();  // the memory stays: it is the lexicon's, and counted there
    std::ranges::for_each(before, add);
  }
  if (making_bits_) {
    std::ranges::for_each(tokens, add);
  } else {
    found.insert(found.end(), tokens.begin(), tokens.end());
  }
}

// The mask of a configuration. Many share one: it is made of what stays inside each terminal, what crosses its end, the
// tokens that are named, and whether the text may end, and is looked up by these.
std::uint32_t Constraint::make_mask(ConfigId config, Work& spare) {
  const std::vector<Item> items(stacks_->items(config).begin(), stacks_->items(config).end());
  std::vector<std::pair<TermId, std::uint32_t>> pairs;
  pairs.reserve(2 * items.size());
  for (const Item& item : items) {
    const TermId term = lexicon().clamp_inside(item.label, spare);
    if (stacks_->longest()) {
      pairs.emplace_back(term, kNone);
      continue;
    }
    const std::uint32_t list = cross(term, item.returns, spare);
    pairs.emplace_back(term, list);
    for (std::size_t i = pairs.size() - 1; i < pairs.size(); ++i) {  // lists may have lists
      if (pairs[i].second == kNone) continue;
      const auto more = cross_lists_.parts(pairs[i].second);
      pairs.insert(pairs.end(), more.begin(), more.end());
    }
    spare.spend(8);
    if (list == kNone || cross_lists_[list].undecided == 0) continue;
    if (const std::uint32_t more = decide(list, item.returns, spare); more != kNone) pairs.emplace_back(term, more);
  }
  if (stacks_->longest() && !pairs.empty()) pairs[0].second = cross_longest(config, spare);
  // Places that differ only in their return sets give the same tokens.
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<std::uint32_t> parts;
  parts.reserve(2 + 2 * pairs.size());
  parts = {stacks_->accepting(config) ? 1u : 0u, static_cast<std::uint32_t>(pairs.size())};
  for (const auto& [term, list] : pairs) parts.insert(parts.end(), {term, list});
  for (const Item& item : stacks_->token_items(config))
    if (parts.size() == 2 + 2 * pairs.size() || parts.back() != item.label) parts.push_back(item.label);
  const std::uint64_t hash = hash_words(3, parts);
  const auto parts_of = [&](std::uint32_t mask) {
    return std::span(mask_parts_).subspan(masks_[mask].first_part, masks_[mask].part_count);
  };
  const std::uint32_t known =
      mask_ids_.find(hash, [&](std::uint32_t mask) { return std::ranges::equal(parts_of(mask), parts); });
  if (known != kNone) return known;

  Mask made = combine(parts, spare);
  made.first_part = static_cast<std::uint32_t>(mask_parts_.size());
  made.part_count = static_cast<std::uint32_t>(parts.size());
  mask_parts_.insert(mask_parts_.end(), parts.begin(), parts.end());
  const auto id = static_cast<std::uint32_t>(masks_.size());
  tokens_bytes_ += held(made.tokens) + kHeapBlock;
  masks_.push_back(std::move(made));
  mask_ids_.insert(hash, id);
  return id;
}

// Kept as a dense mask of the lexicon and what it lacks, as a list, or as bits of its own: whichever is small.
Constraint::Mask Constraint::combine(std::span<const std::uint32_t> parts, Work& spare) {
  const std::size_t terms = parts[1];
  const std::size_t words = vocabulary_->mask_words();
  Mask made;
  auto& bits = lexicon().mask_bits();
  auto& found = lexicon().mask_tokens();
  found.clear();
  making_bits_ = false;
  bool several = false;
  std::uint32_t first = kNone;           // dense mask
  std::span<const std::uint32_t> lacks;  // of it
  const auto has = [&](std::uint32_t t) { return ((bits[t >> 5] >> (t & 31)) & 1) != 0; };
  const auto flip = [&](std::uint32_t t) { bits[t >> 5] ^= 1u << (t & 31); };
  for (std::size_t i = 0; i < terms; ++i) {
    if (parts[2 + 2 * i] == kNever) continue;
    const Inside& inside = lexicon().inside(parts[2 + 2 * i], spare);
    if (inside.dense == kNone) continue;
    if (inside.dense == first) {  // what one of the two lacks the other may have
      spare.spend(4 * lacks.size());
      for (std::uint32_t t : lacks)
        if (!has(t) && !std::ranges::binary_search(inside.lacks, t)) flip(t);
      continue;
    }
    const auto dense = lexicon().dense(inside.dense);
    spare.spend(words / 8 + inside.lacks.size());
    if (!making_bits_) {
      bits.assign(dense.begin(), dense.end());
      making_bits_ = true;
      first = inside.dense;
      lacks = inside.lacks;
      std::ranges::for_each(lacks, flip);
    } else {
      std::vector<std::uint32_t> still;
      std::ranges::copy_if(inside.lacks, std::back_inserter(still), [&](std::uint32_t t) { return !has(t); });
      for (std::size_t w = 0; w < words; ++w) bits[w] |= dense[w];
      std::ranges::for_each(still, flip);
      several = true;
    }
  }
  for (std::size_t i = 0; i < terms; ++i) {
    if (const TermId term = parts[2 + 2 * i]; term != kNever) allow(lexicon().inside(term, spare).tokens, spare);
    if (const std::uint32_t list = parts[3 + 2 * i]; list != kNone) allow(cross_lists_.tokens(list), spare);
  }
  for (std::uint32_t label : parts.subspan(2 + 2 * terms)) allow(network_->token_set(label), spare);
  if (parts[0] == 1) allow(vocabulary_->end_tokens(), spare);

  spare.spend(words / 8 + found.size());
  const bool many = found.size() > words;
  if (!making_bits_) {  // else none stands there twice
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  if (several || many) {
    made.dense = dense_.emplace_back(bits);
  } else {
    if (first != kNone) made.dense = lexicon().dense(first);
    std::size_t lacking = 0;
    for (std::uint32_t t : lacks) lacking += has(t) ? 0 : 1;
    made.tokens.reserve(found.size() + lacking);
    made.tokens = found;
    made.added = found.size();
    std::ranges::copy_if(lacks, std::back_inserter(made.tokens), [&](std::uint32_t t) { return !has(t); });
  }
  return made;
}

ConstraintStats Constraint::stats() const {
  return {network_->state_count(),
          stacks_->config_count(),
          masks_.size(),
          cross_lists_.size(),
          bytes(),
          epoch_,
          lane_.home().lexicon().bytes(),
          lane_.home().lexicon().rows(),
          lane_.home().lexicon().masks(),
          lane_.home().lexicon().crossings()};
}

}  // namespace narrows
