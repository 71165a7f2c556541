// Byte-pair encoding of one piece of text: symbols are merged by rank, the leftmost of equal rank first, until no pair
// of neighbours has a merge. The cost of a piece grows with n log n at most.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::text {

struct BpeDefinition {
  // Token texts by id; empty where there is none. With `bytes`, the bytes a token stands for; otherwise its text.
  std::vector<std::string> tokens;
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };
  std::vector<Merge> merges;                // by rank; of equal pairs the last counts
  bool bytes = false;                       // symbols to begin with are single bytes, not characters
  bool ignore_merges = false;               // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;               // an unknown character is its bytes, as tokens <0x00> to <0xFF>
  bool fuse_unk = false;                    // unknown characters that follow each other are one `unk`
  int32_t unk = -1;                         // -1: unknown characters are left out
  std::array<int32_t, 256> fallback_ids{};  // -1 where there is none
};

// Immutable and thread safe. Each thread keeps a cache of pieces of its own, of fixed size, for the last few models.
class Bpe {
 public:
  explicit Bpe(BpeDefinition definition);
  ~Bpe();

  // Appends the ids of `piece`. REQUIRES: valid UTF-8 unless `bytes`.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;
  // The same without a look at the cache, and without cutting long pieces: for tests.
  void EncodePlainly(std::string_view piece, std::vector<int32_t>& ids) const;

  // Bytes that one thread's cache takes per model.
  static size_t CacheBytes();

 private:
  struct Tables;
  void EncodeCached(std::string_view piece, std::vector<int32_t>& ids) const;
  const std::unique_ptr<const Tables> tables_;
};

}  // namespace ingot::text
