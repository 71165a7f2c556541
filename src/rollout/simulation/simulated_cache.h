// Simulates a KV cache: the prefixes that an engine can reuse. Evicts least recently used prefixes. Not thread safe.
#pragma once

#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "rollout/cache/prefix_keys.h"

namespace ingot::rollout {

class SimulatedCache {
 public:
  explicit SimulatedCache(int64_t tokens) : most_(static_cast<size_t>(tokens / PrefixKeys::kTokens)) {}

  // Returns the number of cached leading tokens, always less than the sequence's length, and marks them as used.
  int64_t Match(const PrefixKeys& sequence) {
    int64_t tokens = 0;
    for (const uint64_t key : sequence.keys()) {
      const auto found = places_.find(key);
      if (found == places_.end() || tokens + PrefixKeys::kTokens >= sequence.tokens()) break;
      used_.splice(used_.begin(), used_, found->second);
      tokens += PrefixKeys::kTokens;
    }
    return tokens;
  }

  void Add(const PrefixKeys& sequence) {
    for (const uint64_t key : sequence.keys()) {
      if (places_.contains(key)) continue;
      used_.push_front(key);
      places_[key] = used_.begin();
    }
    for (; used_.size() > most_; used_.pop_back()) places_.erase(used_.back());
  }

  void Clear() {
    places_.clear();
    used_.clear();
  }

 private:
  const size_t most_;
  std::list<uint64_t> used_;  // newest first
  absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

}  // namespace ingot::rollout
