#include "match/matcher.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "match/shortest.hpp"

namespace narrows {

// Holds the matcher for one call.
class Matcher::Use {
 public:
  explicit Use(const Matcher& matcher) : busy_(const_cast<std::atomic<bool>&>(matcher.busy_)) {
    if (busy_.exchange(true, std::memory_order_acquire))
      throw Error("concurrent_use", "the matcher is in use by another thread");
  }
  ~Use() { busy_.store(false, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>& busy_;
};

Matcher::Matcher(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {
  const auto lock = constraint_->lane().read();
  epoch_ = constraint_->epoch();
  configs_.push_back(constraint_->start());
}

Matcher::Matcher(const Matcher& other) : constraint_(other.constraint_) {
  const Use use(other);
  configs_ = other.configs_;
  steps_ = other.steps_;
  bytes_ = other.bytes_;
  set_finished(other.is_finished());
  epoch_ = other.epoch_;
  spent_ = other.spent_;
}

template <class Call>
auto Matcher::in_turn(const Call& call) {
  for (bool alone = false;;) {
    try {
      Turn turn(*constraint_, spent_);
      if (alone) constraint_->rebuild(turn);
      replay_if_stale(turn, alone);
      return call(turn);
    } catch (const Crowded&) {
      constraint_->move_apart();
    } catch (const Error& error) {
      // What others remember may have filled the room: what counts is what this sequence needs alone.
      if (alone || error.limit != "constraint_bytes") throw;
      alone = true;
    }
  }
}

// Under the exclusive lock. `alone` becomes true where all that was remembered is dropped for it. Where it throws, the
// matcher is as it was, and stale still.
void Matcher::replay_if_stale(Turn& turn, bool& alone) {
  Constraint& c = *constraint_;
  if (c.refresh(turn)) alone = true;
  if (epoch_ == c.epoch()) return;
  for (;;) {
    std::vector<ConfigId> played{c.start()};
    turn.begin_replay();
    for (const Step& step : steps_) {
      turn.check_replay();
      const Place from{played.back(), false};
      if (step.token == kNone) {
        played.push_back(step_pieces(from.config, std::span(bytes_).subspan(step.first, step.count), turn));
      } else {
        played.push_back(advance(from, step.token, turn.step()).config);
      }
    }
    if (!alone && c.over_room()) {
      c.rebuild(turn);
      alone = true;
      continue;
    }
    c.check_room(alone);
    configs_ = std::move(played);
    epoch_ = c.epoch();
    return;
  }
}

// Long texts are read in pieces: the limit on work holds for each step.
ConfigId Matcher::step_pieces(ConfigId from, std::span<const std::uint8_t> bytes, Turn& turn) {
  constexpr std::size_t kPiece = 256;
  ConfigId at = from;
  for (std::size_t done = 0; done < bytes.size() && at != kDead; done += kPiece) {
    at = constraint_->step_bytes(at, bytes.subspan(done, std::min(kPiece, bytes.size() - done)), turn.step());
    constraint_->check_memory();
  }
  return at;
}

void Matcher::check(std::uint32_t token) const {
  if (token >= constraint_->vocabulary().size())
    throw Error("token_out_of_range", "token " + std::to_string(token) + " lies outside the vocabulary of " +
                                          std::to_string(constraint_->vocabulary().size()));
}

Matcher::Place Matcher::advance(Place from, std::uint32_t token, Work& work) {
  if (from.finished || from.config == kDead) return {kDead, false};
  const ConfigId to = constraint_->step_token(from.config, token, work);
  if (constraint_->vocabulary().ends(token)) {
    // An end token finishes the text, both when the text is complete and when the grammar names the token there.
    if (to != kDead) return {to, true};
    if (constraint_->accepting(from.config)) return {from.config, true};
    return {kDead, false};
  }
  return {to, false};
}

void Matcher::mask_at(Place at, std::span<std::uint32_t> row, Work& work) {
  if (at.finished || at.config == kDead) {
    std::ranges::fill(row, 0u);
  } else {
    constraint_->mask(at.config, row, work);
  }
}

Matcher::Place Matcher::known_advance(Place from, std::uint32_t token) const {
  if (from.finished || from.config == kDead) return {kDead, false};
  if (constraint_->vocabulary().ends(token)) return {kNone, false};
  return {constraint_->known_step(from.config, token), false};
}

bool Matcher::try_fill_mask(std::span<std::uint32_t> row) {
  const Use use(*this);
  if (is_finished()) {
    std::ranges::fill(row, 0u);
    return true;
  }
  const auto lock = constraint_->lane().try_read();
  return lock.owns_lock() && is_fresh() && constraint_->known_mask(current(), row);
}

void Matcher::fill_mask(std::span<std::uint32_t> row) {
  if (try_fill_mask(row)) return;
  const Use use(*this);
  in_turn([&](Turn& turn) { mask_at({current(), is_finished()}, row, turn.step()); });
}

std::optional<bool> Matcher::try_accept(std::uint32_t token) {
  const Use use(*this);
  check(token);
  Place to{kNone, false};
  if (const auto lock = constraint_->lane().try_read(); lock.owns_lock() && is_fresh())
    to = known_advance({current(), is_finished()}, token);
  if (to.config == kNone) return std::nullopt;
  return take(token, to);
}

bool Matcher::accept(std::uint32_t token) {
  if (const std::optional<bool> known = try_accept(token)) return *known;
  const Use use(*this);
  return take(token, in_turn([&](Turn& turn) { return advance({current(), is_finished()}, token, turn.step()); }));
}

bool Matcher::take(std::uint32_t token, Place to) {
  if (to.config == kDead) return false;
  add({token, 0, 0}, to.config);
  set_finished(to.finished);
  took_step();
  return true;
}

bool Matcher::accept_bytes(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kTurn = 100'000;
  const Use use(*this);
  if (is_finished()) return false;
  const auto first = static_cast<std::uint32_t>(bytes_.size());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  add({kNone, first, 0}, current());
  try {
    // Others get the lock between two turns. What has been read by then is a step like any other, should it be dropped
    // meanwhile.
    for (std::size_t done = 0; done < bytes.size(); done += kTurn) {
      const auto next = bytes.subspan(done, std::min(kTurn, bytes.size() - done));
      const ConfigId at = in_turn([&](Turn& turn) { return step_pieces(current(), next, turn); });
      if (at == kDead) {
        undo();
        return false;
      }
      configs_.back() = at;
      steps_.back().count += static_cast<std::uint32_t>(next.size());
    }
  } catch (...) {
    undo();
    throw;
  }
  took_step();
  return true;
}

// Both or none, where memory runs out.
void Matcher::add(Step step, ConfigId config) {
  configs_.push_back(config);
  try {
    steps_.push_back(step);
  } catch (...) {
    configs_.pop_back();
    throw;
  }
}

void Matcher::undo() {
  if (steps_.back().token == kNone) bytes_.resize(steps_.back().first);
  steps_.pop_back();
  configs_.pop_back();
}

std::optional<std::uint32_t> Matcher::try_accepts(std::span<const std::uint32_t> tokens) {
  const Use use(*this);
  for (std::uint32_t t : tokens) check(t);
  const auto lock = constraint_->lane().try_read();
  if (!lock.owns_lock() || !is_fresh()) return std::nullopt;
  Place at{current(), is_finished()};
  std::uint32_t count = 0;
  for (std::uint32_t t : tokens) {
    at = known_advance(at, t);
    if (at.config == kNone) return std::nullopt;
    if (at.config == kDead) break;
    ++count;
  }
  return count;
}

std::uint32_t Matcher::accepts(std::span<const std::uint32_t> tokens) {
  if (const std::optional<std::uint32_t> known = try_accepts(tokens)) return *known;
  const Use use(*this);
  return in_turn([&](Turn& turn) {
    Place at{current(), is_finished()};
    std::uint32_t count = 0;
    for (std::uint32_t t : tokens) {
      at = advance(at, t, turn.step());
      if (at.config == kDead) break;
      ++count;
    }
    return count;
  });
}

void Matcher::took_step() { spent_.tokens = std::max<std::uint64_t>(spent_.tokens, steps_.size()); }

void Matcher::rollback(std::size_t count) {
  const Use use(*this);
  if (count == 0) return;
  if (count > steps_.size())
    throw Error("rollback_too_far",
                "cannot take back " + std::to_string(count) + " steps of " + std::to_string(steps_.size()));
  for (std::size_t i = 0; i < count; ++i) undo();
  set_finished(false);  // nothing follows an end token, so it was one of the tokens that were rolled back
}

void Matcher::reset() {
  const Use use(*this);
  steps_.clear();
  bytes_.clear();
  set_finished(false);
  configs_.resize(1);
}

std::optional<bool> Matcher::try_is_accepting() {
  const Use use(*this);
  const auto lock = constraint_->lane().try_read();
  if (!lock.owns_lock() || !is_fresh()) return std::nullopt;
  return constraint_->accepting(current());
}

bool Matcher::is_accepting() {
  if (const std::optional<bool> known = try_is_accepting()) return *known;
  const Use use(*this);
  return in_turn([&](Turn&) { return constraint_->accepting(current()); });
}

std::vector<std::uint32_t> Matcher::tokens(std::size_t last) const {
  const Use use(*this);
  std::vector<std::uint32_t> out;
  for (const Step& step : std::span(steps_).last(std::min(last, steps_.size()))) out.push_back(step.token);
  return out;
}

std::vector<TextStep> Matcher::text() const {
  const Use use(*this);
  std::vector<TextStep> out;
  out.reserve(steps_.size());
  for (const Step& step : steps_) {
    const auto bytes = std::span(bytes_).subspan(step.first, step.count);
    out.push_back({step.token, {bytes.begin(), bytes.end()}});
  }
  return out;
}

std::size_t Matcher::length() const {
  const Use use(*this);
  return steps_.size();
}

std::uint64_t Matcher::state_key() const {
  const Use use(*this);
  return mix(mix(mix(0, epoch_), current()), is_finished() ? 1 : 0);
}

std::vector<std::uint8_t> Matcher::forced_bytes(std::size_t at_most) {
  const Use use(*this);
  if (is_finished()) return {};
  return in_turn([&](Turn& turn) {
    std::vector<std::uint8_t> out;
    Stacks& stacks = constraint_->stacks();
    ConfigId at = current();
    // One budget for the call: what is found by then is forced all the same.
    Work& work = turn.step();
    while (out.size() < at_most && !stacks.accepting(at) && stacks.token_items(at).empty() &&
           work.exceeds(out.size())) {
      const ByteSet next = stacks.first(at, work);
      if (next.count() != 1) break;
      out.push_back(next.first());
      at = stacks.step(at, out.back(), work);
    }
    return out;
  });
}

std::optional<std::uint32_t> Matcher::only_token() {
  const Use use(*this);
  if (is_finished()) return std::nullopt;
  return in_turn([&](Turn& turn) -> std::optional<std::uint32_t> {
    Stacks& stacks = constraint_->stacks();
    const ConfigId at = current();
    if (stacks.token_items(at).empty() || stacks.accepting(at) || stacks.first(at, turn.step()).count() != 0)
      return std::nullopt;
    std::optional<std::uint32_t> only;
    for (const Item& item : stacks.token_items(at))
      for (const std::uint32_t token : constraint_->network().token_set(item.label)) {
        if (only && *only != token) return std::nullopt;
        only = token;
      }
    return only;
  });
}

std::vector<std::uint32_t> Matcher::forced_tokens(std::size_t at_most) {
  const Use use(*this);
  std::vector<std::uint32_t> row(constraint_->vocabulary().mask_words());
  return in_turn([&](Turn& turn) {
    std::vector<std::uint32_t> out;
    Place at{current(), is_finished()};
    while (out.size() < at_most) {
      Work& work = turn.step();
      mask_at(at, row, work);
      std::uint32_t only = kNone;
      bool several = false;
      for (std::uint32_t w = 0; w < row.size() && !several; ++w) {
        if (row[w] == 0) continue;
        several = only != kNone || (row[w] & (row[w] - 1)) != 0;
        only = w * 32 + static_cast<std::uint32_t>(std::countr_zero(row[w]));
      }
      if (several || only == kNone) break;
      out.push_back(only);
      at = advance(at, only, work);
    }
    return out;
  });
}

std::vector<Completion> Matcher::shortest_end() {
  const Use use(*this);
  if (is_finished()) return {};
  return in_turn([&](Turn& turn) { return shortest_completion(*constraint_, current(), turn.step()); });
}

void Matcher::fill_ending_mask(std::size_t at_most, std::span<std::uint32_t> row) {
  const Use use(*this);
  in_turn([&](Turn& turn) {
    const Place at{current(), is_finished()};
    mask_at(at, row, turn.step());
    std::unordered_map<ConfigId, bool> ends;  // many tokens lead to the same place
    for (std::size_t w = 0; w < row.size(); ++w)
      for (std::uint32_t left = row[w]; left != 0; left &= left - 1) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(left));
        const Place to = advance(at, static_cast<std::uint32_t>(w * 32) + bit, turn.step());
        if (to.finished) continue;
        auto [known, is_new] = ends.try_emplace(to.config, false);
        if (is_new) {
          const auto parts = shortest_completion(*constraint_, to.config, turn.step());
          known->second = count_tokens(parts) <= at_most;
          constraint_->check_memory();
        }
        if (!known->second) row[w] &= ~(1u << bit);
      }
  });
}

void Matcher::fill_healing_mask(std::span<const std::uint8_t> before, std::span<std::uint32_t> row) {
  const Use use(*this);
  in_turn([&](Turn& turn) {
    std::ranges::fill(row, 0u);
    const Trie& trie = constraint_->vocabulary().trie();
    for (const std::uint32_t token : trie.along(before)) {
      const auto own = trie.token(token);
      const auto rest = own.subspan(std::min(own.size(), before.size()));
      if (!rest.empty() && step_pieces(current(), rest, turn) == kDead) continue;
      row[token >> 5] |= 1u << (token & 31);
    }
  });
}

// The tokens that spell a completion, up to the first end token that the grammar names.
std::size_t Matcher::count_tokens(std::span<const Completion> parts) const {
  std::vector<std::uint32_t> spelled;
  for (const Completion& part : parts) {
    if (part.token != kNone) {
      spelled.push_back(part.token);
      if (constraint_->vocabulary().ends(part.token)) break;
    } else if (!constraint_->vocabulary().trie().segment(part.bytes, spelled)) {
      return kNone;
    }
  }
  return spelled.size();
}

Explanation Matcher::explain(std::uint32_t token) {
  const Use use(*this);
  check(token);
  return in_turn([&](Turn& turn) { return explain_here(token, turn.step()); });
}

Explanation Matcher::explain_here(std::uint32_t token, Work& work) {
  Explanation out;
  Stacks& stacks = constraint_->stacks();
  ConfigId at = current();
  if (!is_finished()) {
    out.allowed = advance({at, false}, token, work).config != kDead;
    if (token < constraint_->vocabulary().trie().token_count()) {
      for (std::uint8_t b : constraint_->vocabulary().trie().token(token)) {
        const ConfigId next = stacks.step(at, b, work);
        if (next == kDead) break;
        at = next;
        ++out.offset;
      }
    }
  }
  out.expected = stacks.first(at, work);
  out.end_expected = stacks.accepting(at);
  for (const auto& list : {stacks.items(at), stacks.token_items(at)})
    for (const Item& item : list)
      for (std::uint32_t node : stacks.nodes(item.returns)) {
        const std::uint32_t state = stacks.node_state(node);
        if (state != kNone) out.rules.push_back(constraint_->network().rule_of(state));
      }
  for (const Item& item : stacks.token_items(at)) {
    const auto ids = constraint_->network().token_set(item.label);
    out.named_tokens.insert(out.named_tokens.end(), ids.begin(), ids.end());
  }
  for (auto* list : {&out.rules, &out.named_tokens}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return out;
}

void Matcher::check_draft(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    check(tokens[i]);
    if (!parents.empty() && (parents[i] < -1 || parents[i] >= static_cast<std::int32_t>(i)))
      throw Error("invalid_input", "a draft token's parent must come before it");
  }
}

bool Matcher::try_fill_draft_masks(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents,
                                   std::span<std::uint32_t> rows) {
  const Use use(*this);
  check_draft(tokens, parents);
  const auto lock = constraint_->lane().try_read();
  if (!lock.owns_lock() || !is_fresh()) return false;
  const std::size_t words = constraint_->vocabulary().mask_words();
  std::vector<Place> places{{current(), is_finished()}};
  for (std::size_t i = 0; i <= tokens.size(); ++i) {
    if (i > 0) places.push_back(known_advance(places[before(parents, i - 1)], tokens[i - 1]));
    const auto row = rows.subspan(i * words, words);
    if (places.back().config == kNone) return false;
    if (places.back().finished || places.back().config == kDead) {
      std::ranges::fill(row, 0u);
    } else if (!constraint_->known_mask(places.back().config, row)) {
      return false;
    }
  }
  return true;
}

void Matcher::fill_draft_masks(std::span<const std::uint32_t> tokens, std::span<const std::int32_t> parents,
                               std::span<std::uint32_t> rows) {
  if (try_fill_draft_masks(tokens, parents, rows)) return;
  const Use use(*this);
  const std::size_t words = constraint_->vocabulary().mask_words();
  in_turn([&](Turn& turn) {
    std::vector<Place> places{{current(), is_finished()}};
    for (std::size_t i = 0; i <= tokens.size(); ++i) {
      Work& work = turn.step();
      if (i > 0) places.push_back(advance(places[before(parents, i - 1)], tokens[i - 1], work));
      mask_at(places.back(), rows.subspan(i * words, words), work);
      constraint_->check_memory();
    }
  });
}

void fill_masks(std::span<Matcher* const> matchers, std::span<std::uint32_t> rows, std::size_t row_words,
                unsigned threads) {
  const auto fill = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) matchers[i]->fill_mask(rows.subspan(i * row_words, row_words));
  };
  if (threads <= 1 || matchers.size() < 2) {
    fill(0, matchers.size());
    return;
  }
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto fill_safely = [&](std::size_t from, std::size_t to) {
    try {
      fill(from, to);
    } catch (...) {
      const std::lock_guard guard(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> pool;
  const std::size_t share = (matchers.size() + threads - 1) / threads;
  std::size_t from = share;  // the first share is this thread's
  try {
    for (; from < matchers.size(); from += share)
      pool.emplace_back(fill_safely, from, std::min(from + share, matchers.size()));
  } catch (const std::system_error&) {
    fill_safely(from, matchers.size());  // no more threads are available
  }
  fill_safely(0, share);
  pool.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace narrows
