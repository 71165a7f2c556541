// Caches the ids of recurring strings, such as the system message and tools that all episodes have, or the prompt and
// files that a group's samples have. A string is cached on its second use, so unique strings take no space.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

// Thread safe. REQUIRES: all calls pass the same tokenizer.
class EncodeCache {
 public:
  // `max_bytes` limits the total size of strings and ids. Strings shorter than 512 bytes are not cached.
  explicit EncodeCache(size_t max_bytes) : max_shard_bytes_(max_bytes / kShards) {}

  // Appends tokenizer.Encode(text, allow_special) to `ids`.
  void Encode(const Tokenizer& tokenizer, std::string_view text, bool allow_special, std::vector<int32_t>& ids);

  int64_t hits() const;

 private:
  static constexpr size_t kShards = 8, kSeen = 1024, kShortest = 512;

  struct Entry {
    std::string text;
    uint64_t hash;  // hash of the text; the last bit is `allow_special`
    std::vector<int32_t> ids;
    size_t bytes() const { return text.size() + ids.size() * sizeof(int32_t) + 128; }
  };
  struct Shard {
    base::Mutex mu;
    std::list<Entry> entries ABSL_GUARDED_BY(mu);  // most recently used first
    std::unordered_map<uint64_t, std::list<Entry>::iterator> by_hash ABSL_GUARDED_BY(mu);
    // hashes of strings seen once; newer hashes replace older ones
    std::array<uint64_t, kSeen> seen ABSL_GUARDED_BY(mu) = {};
    size_t bytes ABSL_GUARDED_BY(mu) = 0;
    int64_t hits ABSL_GUARDED_BY(mu) = 0;
  };

  const size_t max_shard_bytes_;
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace ingot::text
