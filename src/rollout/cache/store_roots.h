// The roots (kv/chunk.h) under which an engine reads and writes chunks, one for each loaded version. Not thread safe,
// but a root is immutable and may be used on any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "kv/options.h"
#include "kv/store.h"
#include "rollout/cache/kv_pages.h"
#include "rollout/engine/sequence.h"

namespace ingot::rollout {

struct StoreRoot {
  std::weak_ptr<const WeightVersion> version;
  uint64_t salt = 0;  // of the version's blocks
  kv::Root root;
  base::Key128 key{};
  KvPages* pages = nullptr;  // used on the step thread only
  size_t blocks_per_chunk = 0;
  int64_t chunk_bytes = 0;  // of all planes
};
using StoreRootPtr = std::shared_ptr<const StoreRoot>;

class StoreRoots {
 public:
  // `store` outlives this object. REQUIRES: chunk_tokens is a multiple of block_tokens.
  StoreRoots(kv::Store* store, int32_t chunk_tokens, int32_t block_tokens)
      : store_(*store), chunk_tokens_(chunk_tokens), block_tokens_(block_tokens) {}

  // Returns the root of a version. The store then keeps its chunks until the version is gone.
  StoreRootPtr Of(const WeightVersion& version, KvPages* pages);
  // Forgets the roots of versions that no longer exist.
  void Forget();

 private:
  void Hold();

  kv::Store& store_;
  const int32_t chunk_tokens_, block_tokens_;
  absl::flat_hash_map<uint64_t, StoreRootPtr> roots_;  // by salt
};

}  // namespace ingot::rollout
