// Fills an engine's cache with verified chunks from a store that engines share (kv/store.h).
//
//   Look      chunks of a waiting request's prompt that the cache does not have  ──▶  lookup     (I/O thread)
//   Collect   enough memory and blocks                                           ──▶  read, verify (I/O thread)
//   Collect   copies the chunks to new blocks and names them; admission then finds a cached prefix
//
// A request waits for at most twice the time that its chunks are estimated to take, and for no longer than half of the
// time that computing them would take, or a tenth while reading is not known to be twice as fast. Then the engine
// computes what the request still needs. A lookup or read that takes longer than computing is abandoned. While the I/O
// of an abandoned fetch has not returned, because the store hangs, nothing else is fetched. If reading is not twice as
// fast, only one prompt in 64 is fetched, to measure the store again, and no request waits for it.
//
// I/O threads see only buffers. Blocks are written on the step thread and named only under a version that exists.
//
// Not thread safe: used by the engine's step thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kv/options.h"
#include "kv/store.h"
#include "rollout/cache/chunk_buffer.h"
#include "rollout/cache/kv_blocks.h"
#include "rollout/cache/kv_writer.h"
#include "rollout/cache/store_roots.h"
#include "rollout/engine/sequence.h"

namespace ingot::rollout {

struct FetchStats {
  int64_t fetched_tokens = 0;
  double fetch_seconds = 0;
  int64_t abandoned = 0;
};

class KvFetcher {
 public:
  struct Parts {
    kv::Store* store;
    KvBlocks* blocks;
    KvWriter* writer;  // learns which chunks the store has
    const base::Clock* clock;
    std::function<void()> wake;  // called on an I/O thread when Collect has something to do
  };

  // The parts outlive the fetcher.
  KvFetcher(Parts parts, const kv::Options& options);
  ~KvFetcher();

  // Starts to look for a waiting request's chunks, once per version.
  void Look(Sequence& sequence, const StoreRootPtr& root);
  // Returns true if the request should not be admitted yet on the version with this salt.
  bool Awaits(const Sequence& sequence, uint64_t salt) const;
  // Takes what I/O threads have finished. Calls `named` for a version before its blocks are named.
  void Collect(const std::function<void(const WeightVersion&)>& named);

  // Abandons all fetches, so that they hold no blocks.
  void AbandonAll() { AbandonLate(std::chrono::nanoseconds::max()); }
  // Returns the time at which requests stop waiting for a fetch, or Collect abandons one; max() = there is none.
  std::chrono::nanoseconds next_deadline() const;

  // Reports a forward pass of `rows` rows.
  void Computed(int64_t rows, std::chrono::nanoseconds took);

  const FetchStats& stats() const { return stats_; }

 private:
  struct Fetch;
  using FetchPtr = std::shared_ptr<Fetch>;
  using Named = std::function<void(const WeightVersion&)>;

  // A moving average.
  struct Measured {
    double average = 0;
    int samples = 0;

    void Add(double sample);
    // Returns false as long as the samples may be those of cold caches.
    bool exceeds(double limit) const { return samples >= kColdSamples && average > limit; }
  };
  static constexpr int kColdSamples = 8;

  double ComputeSeconds(size_t chunks) const;
  bool Pays(size_t chunks) const;
  double WaitSeconds(size_t chunks) const;
  void SetDeadline(Fetch& fetch, size_t chunks) const;
  void Post(const FetchPtr& fetch, void (KvFetcher::*work)(Fetch&), void (KvFetcher::*then)(const FetchPtr&));
  void Lookup(Fetch& fetch);
  void LookedUp(const FetchPtr& fetch);
  bool HoldPrefix(Fetch& fetch);
  void ReadNext(const FetchPtr& fetch);
  void Read(Fetch& fetch);
  void NameRead(const FetchPtr& fetch);
  bool NameChunk(Fetch& fetch, const ChunkBuffer& bytes);
  void Finish(Fetch& fetch);
  void AbandonLate(std::chrono::nanoseconds now);

  const Parts parts_;
  const kv::Options options_;
  KvBlocks& blocks_;
  absl::flat_hash_map<base::Key128, FetchPtr, base::Key128Hash> fetches_;  // by first missing chunk
  int64_t reading_bytes_ = 0;
  int64_t held_blocks_ = 0;
  int hanging_ = 0;               // abandoned fetches whose I/O has not returned
  Measured token_seconds_;        // of computing a token, by recent passes
  Measured chunk_seconds_;        // of reading a chunk
  Measured lookup_seconds_;       // of a lookup
  int64_t declined_ = 0;          // lookups that would not have paid
  const Named* named_ = nullptr;  // during Collect
  FetchStats stats_;

  std::atomic<bool> stopping_{false};
  base::Mutex mu_;
  std::deque<std::function<void()>> done_ ABSL_GUARDED_BY(mu_);  // by I/O threads
  base::Executor io_;  // declared last, so it stops before other members are destroyed
};

}  // namespace ingot::rollout
