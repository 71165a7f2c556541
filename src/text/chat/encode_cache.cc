#include "text/chat/encode_cache.h"

#include <utility>

#include "base/checksum.h"

namespace ingot::text {

void EncodeCache::Encode(const Tokenizer& tokenizer, std::string_view text, bool allow_special,
                         std::vector<int32_t>& ids) {
  const auto append = [&ids](const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  if (text.size() < kShortest) return append(tokenizer.Encode(text, allow_special));
  const uint64_t hash = base::Checksum64(text) * 2 + (allow_special ? 1 : 0);
  Shard& shard = shards_[(hash >> 1) % kShards];
  bool again = false;
  {
    base::MutexLock lock(shard.mu);
    const auto found = shard.by_hash.find(hash);
    if (found != shard.by_hash.end() && found->second->text == text) {
      shard.entries.splice(shard.entries.begin(), shard.entries, found->second);
      ++shard.hits;
      return append(found->second->ids);
    }
    uint64_t& seen = shard.seen[(hash / (2 * kShards)) % kSeen];
    again = std::exchange(seen, hash) == hash;
  }
  Entry entry{.text = {}, .hash = hash, .ids = tokenizer.Encode(text, allow_special)};
  append(entry.ids);
  if (!again) return;
  entry.text = text;
  if (entry.bytes() > max_shard_bytes_) return;
  base::MutexLock lock(shard.mu);
  if (shard.by_hash.contains(hash)) return;  // another thread's entry, or another string with this hash
  shard.bytes += entry.bytes();
  shard.entries.push_front(std::move(entry));
  shard.by_hash[hash] = shard.entries.begin();
  while (shard.bytes > max_shard_bytes_) {
    shard.bytes -= shard.entries.back().bytes();
    shard.by_hash.erase(shard.entries.back().hash);
    shard.entries.pop_back();
  }
}

int64_t EncodeCache::hits() const {
  int64_t hits = 0;
  for (Shard& shard : shards_) {
    base::MutexLock lock(shard.mu);
    hits += shard.hits;
  }
  return hits;
}

}  // namespace ingot::text
