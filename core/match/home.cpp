#include "match/home.hpp"

namespace narrows {

Home::Home(std::shared_ptr<const Trie> trie, std::uint32_t mask_words, std::uint64_t max_bytes,
           std::uint64_t most_bytes)
    : trie_(std::move(trie)), mask_words_(mask_words), max_bytes_(max_bytes), most_bytes_(most_bytes) {
  lexicon_ = std::make_unique<Lexicon>(trie_, mask_words_, most_bytes_);
  count();
}

void Home::renew() {
  auto made = std::make_unique<Lexicon>(trie_, mask_words_, most_bytes_);
  const std::unique_lock lock(memory_);
  lexicon_.swap(made);
  ++epoch_;
  count();
}

bool Home::make_room() {
  if (bytes() <= std::max(max_bytes_, 2 * needed_alone_)) return false;
  renew();
  return true;
}

void Home::check_room() {
  const std::uint64_t needed = lexicon_->bytes();
  if (needed > max_bytes_)
    limit_reached("vocabulary_bytes", "one sequence needs more shared memory than the limit allows");
  needed_alone_ = std::max(needed_alone_, needed);
}

std::shared_lock<FairMutex> Lane::read() const {
  for (;;) {
    Home* const home = home_.load(std::memory_order_acquire);
    std::shared_lock lock(home->memory());
    if (home_.load(std::memory_order_relaxed) == home) return lock;
  }
}

std::shared_lock<FairMutex> Lane::try_read() const {
  Home* const home = home_.load(std::memory_order_acquire);
  std::shared_lock lock(home->memory(), std::try_to_lock);
  if (lock.owns_lock() && home_.load(std::memory_order_relaxed) != home) lock.unlock();
  return lock;
}

std::unique_lock<FairMutex> Lane::turn() const {
  for (;;) {
    Home* const home = home_.load(std::memory_order_acquire);
    std::unique_lock lock(home->turns());
    if (home_.load(std::memory_order_relaxed) == home) return lock;
  }
}

std::uint64_t Lane::call_work() const {
  const std::uint64_t in_all = step_work_ + step_work_ / (kWork / kTokenWork) * tokens_;
  if (work_ >= in_all || bytes_ > kBytes) return 0;
  return std::min(step_work_ / (kWork / kCallWork), in_all - work_);
}

void Lane::move(std::unique_ptr<Home> made) {
  own_ = std::move(made);
  home_.store(own_.get(), std::memory_order_release);
}

}  // namespace narrows
