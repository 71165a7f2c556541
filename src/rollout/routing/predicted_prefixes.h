// Predicts which prefixes each engine has in its KV cache, from the sequences that were sent there. A prefix is
// forgotten kForgetAfter after its last use. A version's prefixes are forgotten when the engine gets a newer one.
//
// Memory is limited to two tables of at most kMostKeys keys. When the newer one is full or old enough, it replaces the
// older one.
//
// Pure: reads no clock. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "rollout/cache/prefix_keys.h"

namespace ingot::rollout {

class PredictedPrefixes {
 public:
  static constexpr std::chrono::seconds kForgetAfter{120};
  static constexpr size_t kMostKeys = size_t{1} << 18;  // 16.8M tokens

  explicit PredictedPrefixes(size_t engines) : engines_(engines) {}

  void AddEngine() { engines_.emplace_back(); }

  // Sets hits[e] to the number of leading tokens that engine e probably has. `hits` has one entry per engine.
  void Match(const PrefixKeys& sequence, std::chrono::nanoseconds now, std::span<int64_t> hits) const;

  // Records that the engine has, or will soon have, the sequence's prefixes.
  void Add(const PrefixKeys& sequence, size_t engine, std::chrono::nanoseconds now);

  // Records that the engine's newest version is `version`. Forgets prefixes computed with earlier ones.
  void SawVersion(size_t engine, int64_t version);
  // Call if the engine may have restarted.
  void Forget(size_t engine);

 private:
  struct Engine {
    int64_t version = -1;  // -1 = unknown
    uint32_t newest = 0;   // counts newest versions
    uint32_t life = 0;     // counts restarts
  };
  struct Holder {
    uint32_t engine = 0;
    uint32_t mark = 0;  // Engine::newest, or Engine::life if the sequence is pinned
    std::chrono::nanoseconds used{0};
  };
  using Holders = absl::InlinedVector<Holder, 2>;
  using Table = absl::flat_hash_map<uint64_t, Holders>;

  uint32_t MarkOf(size_t engine, bool pinned) const { return pinned ? engines_[engine].life : engines_[engine].newest; }
  const Holders* Find(uint64_t key) const;
  Holders& Entry(uint64_t key);

  std::vector<Engine> engines_;
  Table newer_, older_;
  std::chrono::nanoseconds replaced_{0};  // time when newer_ was started
};

}  // namespace ingot::rollout
