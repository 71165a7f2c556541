// Implements byte-pair encoding for one piece of text. Merges symbols by rank, leftmost first for equal ranks, until no
// two neighbors have a merge. Takes O(n log n) time for a piece of length n.
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
  // Tokens' strings by id; empty = no token has that id. With `bytes`, they contain the tokens' bytes.
  std::vector<std::string> tokens;
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };
  std::vector<Merge> merges;                // by rank; if a pair occurs twice, the last one is used
  bool bytes = false;                       // true = the first symbols are bytes; false = they are characters
  bool ignore_merges = false;               // a piece that equals a token becomes that token, regardless of the merges
  bool byte_fallback = false;               // an unknown character becomes its bytes, as tokens <0x00> to <0xFF>
  bool fuse_unk = false;                    // a run of unknown characters becomes one `unk`
  int32_t unk = -1;                         // -1 = unknown characters are dropped
  std::array<int32_t, 256> fallback_ids{};  // the tokens <0x00> to <0xFF>; -1 = no such token
};

// Immutable and thread safe. Each thread has fixed-size caches of pieces for the last four models that it used.
class Bpe {
 public:
  explicit Bpe(BpeDefinition definition);
  ~Bpe();

  // Appends the ids of `piece`. REQUIRES: valid UTF-8, unless `bytes` is set.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;
  // Same as Encode, but without the cache and without splitting long pieces. For tests.
  void EncodePlainly(std::string_view piece, std::vector<int32_t>& ids) const;

  // Returns the largest number of bytes in a piece that one id can represent. 0 = no limit, because unknown text is
  // dropped or fused.
  size_t longest() const { return longest_; }

  // Returns the size in bytes of a thread's cache for one model.
  static size_t CacheBytes();

 private:
  struct Tables;
  void EncodeCached(std::string_view piece, std::vector<int32_t>& ids) const;
  const std::unique_ptr<const Tables> tables_;
  const size_t longest_;
};

}  // namespace ingot::text
