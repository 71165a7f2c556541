// An engine's use of a store that engines share (kv/store.h): KvFetcher fills the cache with chunks of waiting prompts,
// and KvWriter writes the chunks that the engine computes. What a request samples does not depend on either.
//
// Not thread safe: used by the engine's step thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "kv/options.h"
#include "kv/store.h"
#include "rollout/cache/kv_blocks.h"
#include "rollout/cache/kv_fetcher.h"
#include "rollout/cache/kv_pages.h"
#include "rollout/cache/kv_writer.h"
#include "rollout/cache/store_roots.h"
#include "rollout/engine/sequence.h"

namespace ingot::rollout {

class KvTransfer {
 public:
  struct Parts {
    std::shared_ptr<kv::Store> store;
    kv::Options options;
    std::function<void()> wake;  // called on I/O threads when the step thread has something to do
  };

  // `blocks` and `clock` outlive this object. REQUIRES: chunk_tokens is a multiple of the block's tokens.
  KvTransfer(Parts parts, KvBlocks* blocks, const base::Clock* clock)
      : store_(std::move(parts.store)),
        roots_(store_.get(), parts.options.chunk_tokens, blocks->block_tokens()),
        writer_(store_.get(), parts.options, parts.wake),
        fetcher_({store_.get(), blocks, &writer_, clock, parts.wake}, parts.options) {}

  // See KvFetcher. `pages` is the cache's memory for the version.
  void Look(Sequence& sequence, const WeightVersion& version, KvPages* pages) {
    fetcher_.Look(sequence, roots_.Of(version, pages));
  }
  bool Awaits(const Sequence& sequence, uint64_t salt) const { return fetcher_.Awaits(sequence, salt); }
  void Collect(const std::function<void(const WeightVersion&)>& named) {
    roots_.Forget();
    fetcher_.Collect(named);
  }
  void AbandonAll() { fetcher_.AbandonAll(); }
  std::chrono::nanoseconds next_deadline() const { return fetcher_.next_deadline(); }
  void Computed(int64_t rows, std::chrono::nanoseconds took) { fetcher_.Computed(rows, took); }

  // See KvWriter.
  void Offer(Sequence& sequence, const WeightVersion& version, KvPages* pages) {
    writer_.Offer(sequence, roots_.Of(version, pages));
  }

  const FetchStats& fetched() const { return fetcher_.stats(); }
  int64_t puts_dropped() const { return writer_.dropped(); }
  kv::StoreStats stored() const { return store_->stats(); }

 private:
  const std::shared_ptr<kv::Store> store_;
  StoreRoots roots_;
  KvWriter writer_;
  KvFetcher fetcher_;
};

}  // namespace ingot::rollout
