// Lookup tables for a BPE model. Internal to bpe.cc and its tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

inline uint64_t Mix(uint64_t x) {  // a bijection that mixes all bits (Stafford's mix 13)
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

inline uint64_t HashBytes(std::string_view text) {
  uint64_t hash = text.size() * 0x9E3779B97F4A7C15ull;
  const char* at = text.data();
  size_t left = text.size();
  while (left > 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9ull;
    hash ^= hash >> 29;
    at += 8;
    left -= 8;
  }
  uint64_t word = 0;
  std::memcpy(&word, at, left);
  return Mix(hash ^ word);
}

// A map from string to id with open addressing. All strings are stored in one arena.
class TextTable {
 public:
  void Reserve(size_t entries, size_t bytes) {
    size_t slots = 16;
    while (slots < entries * 2) slots *= 2;
    slots_.assign(slots, {});
    arena_.reserve(bytes);
  }
  // Has no effect if the string already exists.
  void Insert(std::string_view text, int32_t id) {
    size_t at = HashBytes(text) & (slots_.size() - 1);
    for (; slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
      if (TextOf(slots_[at]) == text) return;
    }
    slots_[at] = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(text.size()), id};
    arena_ += text;
    longest_ = std::max(longest_, text.size());
  }
  int32_t Find(std::string_view text, uint64_t hash) const {
    if (text.size() > longest_) return -1;
    for (size_t at = hash & (slots_.size() - 1); slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
      if (TextOf(slots_[at]) == text) return slots_[at].id;
    }
    return -1;
  }
  int32_t Find(std::string_view text) const { return Find(text, HashBytes(text)); }

 private:
  struct Slot {
    uint32_t begin = 0;
    uint32_t size = 0;
    int32_t id = -1;
  };
  std::string_view TextOf(const Slot& slot) const { return std::string_view(arena_).substr(slot.begin, slot.size); }
  std::vector<Slot> slots_;
  std::string arena_;
  size_t longest_ = 0;
};

// A map from a pair of symbols to the rank and result of their merge.
class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNone;
    int32_t result = -1;
  };
  void Reserve(size_t entries) {
    size_t slots = 16;
    while (slots < entries * 2) slots *= 2;
    slots_.assign(slots, {});
  }
  void Set(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = KeyOf(left, right);
    size_t at = Mix(key) & (slots_.size() - 1);
    while (slots_[at].merge.rank != kNone && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {key, merge};
  }
  Merge Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    for (size_t at = Mix(key) & (slots_.size() - 1); slots_[at].merge.rank != kNone;
         at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return slots_[at].merge;
    }
    return {};
  }

 private:
  static uint64_t KeyOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  std::vector<Slot> slots_;
};

// The pairs of neighboring characters inside merge results. If two characters are not such a pair, no token crosses the
// boundary between them, so text may be split there before merging. This is a Bloom filter with one probe. A false
// positive prevents a possible split, but wrong splits cannot occur.
class BorderFilter {
 public:
  void Reserve(size_t pairs) {
    size_t bits = 1 << 12;
    while (bits < pairs * 16) bits *= 2;
    words_.assign(bits / 64, 0);
    shift_ = 64 - __builtin_ctzll(bits);
  }
  void Insert(uint32_t left, uint32_t right) {
    const uint64_t bit = BitOf(left, right);
    words_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  bool MayContain(uint32_t left, uint32_t right) const {
    const uint64_t bit = BitOf(left, right);
    return words_[bit / 64] >> (bit % 64) & 1;
  }

 private:
  uint64_t BitOf(uint32_t left, uint32_t right) const {
    return ((static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15ull) >> shift_;
  }
  std::vector<uint64_t> words_;
  int shift_ = 0;
};

}  // namespace ingot::text
