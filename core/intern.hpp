// Hash tables over small ids. The values are in the owner's arrays; a table only finds their ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace narrows {

inline constexpr std::uint32_t kNone = 0xffffffff;

// Bytes that an array holds; and what the heap adds to a block, so that many small ones are not taken for nothing.
template <class T>
std::size_t held(const std::vector<T>& array) {
  return array.capacity() * sizeof(T);
}
inline std::size_t held(const std::vector<bool>& bits) { return bits.capacity() / 8; }
inline constexpr std::size_t kHeapBlock = 16;

inline std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 32);
}

inline std::uint64_t hash_words(std::uint64_t seed, std::span<const std::uint32_t> words) {
  std::uint64_t h = mix(seed, words.size());
  for (std::uint32_t w : words) h = mix(h, w);
  return h;
}

// Finds ids by hash; the caller says which of the candidates is equal. Open addressing, at most two thirds full.
class IdTable {
 public:
  template <class Equal>
  std::uint32_t find(std::uint64_t hash, Equal&& equal) const {
    if (slots_.empty()) return kNone;
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.tag == tag && equal(slot.id)) return slot.id;
    }
  }

  // Adds an id that find() did not see.
  void insert(std::uint64_t hash, std::uint32_t id) {
    if ((count_ + 1) * 3 > slots_.size() * 2) grow();
    place({static_cast<std::uint32_t>(hash >> 32), id, hash});
    ++count_;
  }

  void clear() {
    slots_.clear();
    slots_.shrink_to_fit();
    count_ = 0;
    mask_ = 0;
  }
  std::size_t bytes() const { return held(slots_); }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t id = kNone;
    std::uint64_t hash = 0;
  };
  void place(Slot slot) {
    std::size_t i = slot.hash & mask_;
    while (slots_[i].id != kNone) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.id != kNone) place(slot);
  }
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
  std::size_t mask_ = 0;
};

// An id and a small number as one key.
inline std::uint64_t step_key(std::uint32_t from, std::uint32_t label) {
  return (static_cast<std::uint64_t>(from) << 32) | label;
}

// A map from (id, small number) to id: a cache of transitions.
class StepMap {
 public:
  std::uint32_t find(std::uint32_t from, std::uint32_t label) const {
    if (slots_.empty()) return kNone;
    const std::uint64_t key = step_key(from, label);
    for (std::size_t i = mix(0, key) & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.to;
      if (slot.key == kFree) return kNone;
    }
  }
  void insert(std::uint32_t from, std::uint32_t label, std::uint32_t to) {
    if ((count_ + 1) * 3 > slots_.size() * 2) grow();
    place({step_key(from, label), to});
    ++count_;
  }
  void clear() {
    slots_.clear();
    slots_.shrink_to_fit();
    count_ = 0;
    mask_ = 0;
  }
  std::size_t bytes() const { return held(slots_); }

 private:
  static constexpr std::uint64_t kFree = ~0ull;
  struct Slot {
    std::uint64_t key = kFree;
    std::uint32_t to = kNone;
  };
  void place(Slot slot) {
    std::size_t i = mix(0, slot.key) & mask_;
    while (slots_[i].key != kFree) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.key != kFree) place(slot);
  }
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
  std::size_t mask_ = 0;
};

}  // namespace narrows
