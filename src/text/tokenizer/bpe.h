// Byte-pair encoding of one piece of text. Symbols are merged by rank, the leftmost of equal ranks first, until no two
// neighbors have a merge. The cost is O(n log n) in the length of the piece.
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
  // Token texts by id; empty = no token has that id. With `bytes`, a text is the token's bytes.
  std::vector<std::string> tokens;
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };
  std::vector<Merge> merges;                // by rank; if a pair occurs twice, the last occurrence counts
  bool bytes = false;                       // the first symbols are single bytes; false: characters
  bool ignore_merges = false;               // a piece that equals a token becomes that token, whatever the merges say
  bool byte_fallback = false;               // an unknown character becomes its bytes, as tokens <0x00> to <0xFF>
  bool fuse_unk = false;                    // a run of unknown characters becomes one `unk`
  int32_t unk = -1;                         // -1 = unknown characters are dropped
  std::array<int32_t, 256> fallback_ids{};  // the tokens <0x00> to <0xFF>; -1 = no such token
};

// Immutable and thread safe. Each thread has a piece cache of fixed size for each of its last four models.
class Bpe {
 public:
  explicit Bpe(BpeDefinition definition);
  ~Bpe();

  // Appends the ids of `piece`. REQUIRES: valid UTF-8 unless `bytes`.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;
  // The same without the cache and without cutting long pieces. For tests.
  void EncodePlainly(std::string_view piece, std::vector<int32_t>& ids) const;

  // The most bytes of a piece that one id stands for. 0 = no limit: unknown text is dropped or joined.
  size_t longest() const { return longest_; }

  // The size of one thread's cache for one model.
  static size_t CacheBytes();

 private:
  struct Tables;
  void EncodeCached(std::string_view piece, std::vector<int32_t>& ids) const;
  const std::unique_ptr<const Tables> tables_;
  const size_t longest_;
};

}  // namespace ingot::text
