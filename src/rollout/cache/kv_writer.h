// Writes computed chunks to a store on a thread. The bytes are copied first, so a slow or hung store holds no blocks
// and delays no request. Chunks are dropped if more than max_pending_bytes would wait.
//
// Not thread safe: used by the engine's step thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kv/options.h"
#include "kv/store.h"
#include "rollout/cache/chunk_buffer.h"
#include "rollout/cache/store_roots.h"
#include "rollout/engine/sequence.h"

namespace ingot::rollout {

class KvWriter {
 public:
  // `store` outlives this object. `wake` is called on the writer's thread after each chunk.
  KvWriter(kv::Store* store, const kv::Options& options, std::function<void()> wake);
  ~KvWriter();  // drops chunks that wait

  // Writes the sequence's whole chunks that were not offered before: those of its prompt, or all (options.write).
  // REQUIRES: its named blocks are named under the root's salt.
  void Offer(Sequence& sequence, const StoreRootPtr& root);

  // The store has the chunk, or does not have it.
  void Found(const base::Key128& key) { Remember(key); }
  void Missed(const base::Key128& key) { known_.erase(key); }

  int64_t dropped() const { return dropped_; }  // chunks, because too many bytes were waiting

 private:
  struct Put;

  void Remember(const base::Key128& key);
  void OfferChunk(Sequence& sequence, const StoreRootPtr& root, const kv::Chunk& chunk, size_t index);
  void Write(Put& put);
  void TakeFailed();

  kv::Store& store_;
  const kv::Options options_;
  const std::function<void()> wake_;
  absl::flat_hash_set<base::Key128, base::Key128Hash> known_;  // chunks that the store has or was offered
  int64_t dropped_ = 0;
  std::atomic<int64_t> pending_bytes_{0};
  std::atomic<bool> stopping_{false};
  base::Mutex mu_;
  std::vector<base::Key128> failed_ ABSL_GUARDED_BY(mu_);  // chunks that were not written
  base::Executor thread_;  // declared last, so it stops before other members are destroyed
};

}  // namespace ingot::rollout
