// What threads read while another one computes.
//
//   KnownMap  from (id, small number) to id, like StepMap (intern.hpp).
//   Stable    an array whose elements stay where they are as it grows.
//
// One thread at a time writes. Any number of threads read meanwhile, without waiting: an id can be found in a KnownMap
// only when all that was written before it is there. Whoever reads holds the shared lock of the home's memory
// (match/home.hpp). Whoever gives memory back holds the exclusive one.
//
// Cost: that of StepMap and of a vector. A map that has grown keeps its smaller tables until drop_old().
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "intern.hpp"

namespace narrows {

class KnownMap {
 public:
  std::uint32_t find(std::uint32_t from, std::uint32_t label) const {
    const Table* const table = now_.load(std::memory_order_acquire);
    if (table == nullptr) return kNone;
    const std::uint64_t key = step_key(from, label);
    for (std::size_t i = mix(0, key) & table->mask;; i = (i + 1) & table->mask) {
      const Slot& slot = table->slots[i];
      const std::uint64_t found = slot.key.load(std::memory_order_acquire);
      if (found == key) return slot.to.load(std::memory_order_relaxed);
      if (found == kFree) return kNone;
    }
  }

  // Adds what find() did not see.
  void insert(std::uint32_t from, std::uint32_t label, std::uint32_t to) {
    if (tables_.empty() || (count_ + 1) * 3 > tables_.back().slots.size() * 2) grow();
    place(tables_.back(), step_key(from, label), to);
    ++count_;
  }

  // Tables that were outgrown.
  bool has_old() const { return tables_.size() > 1; }
  void drop_old() {
    while (has_old()) tables_.pop_front();
  }
  void clear() {
    now_.store(nullptr, std::memory_order_relaxed);
    tables_.clear();
    count_ = 0;
  }
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const Table& table : tables_) all += held(table.slots);
    return all;
  }

 private:
  static constexpr std::uint64_t kFree = ~0ull;
  struct Slot {
    std::atomic<std::uint64_t> key = kFree;
    std::atomic<std::uint32_t> to = kNone;
  };
  struct Table {
    explicit Table(std::size_t size) : slots(size), mask(size - 1) {}
    std::vector<Slot> slots;
    std::size_t mask;
  };
  static void place(Table& table, std::uint64_t key, std::uint32_t to) {
    std::size_t i = mix(0, key) & table.mask;
    while (table.slots[i].key.load(std::memory_order_relaxed) != kFree) i = (i + 1) & table.mask;
    table.slots[i].to.store(to, std::memory_order_relaxed);
    table.slots[i].key.store(key, std::memory_order_release);
  }
  void grow() {
    const std::size_t size = tables_.empty() ? 64 : tables_.back().slots.size() * 2;
    std::list<Table> made;
    Table& table = made.emplace_back(size);
    if (!tables_.empty())
      for (const Slot& slot : tables_.back().slots)
        if (const std::uint64_t key = slot.key.load(std::memory_order_relaxed); key != kFree)
          place(table, key, slot.to.load(std::memory_order_relaxed));
    tables_.splice(tables_.end(), made);
    now_.store(&table, std::memory_order_release);
  }

  std::list<Table> tables_;  // the last one has everything
  std::atomic<const Table*> now_ = nullptr;
  std::size_t count_ = 0;
};

template <class T>
class Stable {
 public:
  // A thread that reads has got `i` from a KnownMap, or from the thread that wrote it.
  const T& operator[](std::size_t i) const {
    const Place at = place(i);
    return chunks_[at.chunk].data()[at.offset];
  }
  void push_back(T value) {
    std::vector<T>& chunk = chunks_[place(size_).chunk];
    if (chunk.empty()) {
      chunk.reserve(kFirst << place(size_).chunk);
      held_ += held(chunk);
    }
    chunk.push_back(std::move(value));
    ++size_;
  }
  void clear() {
    for (std::vector<T>& chunk : chunks_) chunk = {};
    size_ = held_ = 0;
  }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return held_; }

 private:
  // The first chunk has so many places, each further one twice as many as the one before.
  static constexpr std::size_t kFirst = 16;
  struct Place {
    std::size_t chunk, offset;
  };
  static Place place(std::size_t i) {
    const auto chunk = static_cast<std::size_t>(std::bit_width(i / kFirst + 1)) - 1;
    return {chunk, i + kFirst - (kFirst << chunk)};
  }

  std::array<std::vector<T>, 28> chunks_;
  std::size_t size_ = 0, held_ = 0;
};

}  // namespace narrows
