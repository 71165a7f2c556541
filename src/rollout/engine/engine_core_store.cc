// Implements EngineCore's use of a KV store: chunks of waiting prompts, computed chunks, and requests with prefill_only.
#include <algorithm>
#include <utility>

#include "rollout/engine/engine_core.h"

namespace ingot::rollout {

using std::chrono::nanoseconds;

// Names the chunks that have arrived, and looks for those of the requests that are admitted next.
void EngineCore::FetchChunks() {
  if (transfer_ == nullptr) return;
  transfer_->Collect([this](const WeightVersion& version) { NoteSalt(version); });
  auto left = static_cast<size_t>(options_.max_running);
  for (auto it = waiting_.begin(); it != waiting_.end() && left > 0; ++it, --left) {
    if (AwaitsVersion(**it)) continue;
    const WeightVersion& version = *VersionOf(**it);
    if (KvPages* pages = runner_.Pages(*version.model); pages != nullptr) transfer_->Look(**it, version, pages);
  }
}

// `took` is the time of the forward pass.
void EngineCore::OfferChunks(const WeightVersion& version, nanoseconds took) {
  if (transfer_ == nullptr) return;
  transfer_->Computed(std::ssize(batch_.token_ids), took);
  KvPages* pages = runner_.Pages(*version.model);
  if (pages == nullptr) return;
  for (Sequence* sequence : batch_sequences_) transfer_->Offer(*sequence, version, pages);
}

// Ends the requests with prefill_only whose chunks are written, or were given up.
void EngineCore::FinishPrefills(std::vector<Emission>* out) {
  for (SequencePtr& sequence : running_) {
    if (!sequence->prefill_only || sequence->gate == nullptr || sequence->computed < sequence->prefill_end) continue;
    const WeightVersion& version = *VersionOf(*sequence);  // a prompt in the cache was in no batch
    KvPages* pages = transfer_ == nullptr ? nullptr : runner_.Pages(*version.model);
    if (pages != nullptr) transfer_->Offer(*sequence, version, pages);
    Release(*sequence);
    prefilled_.push_back(std::move(sequence));
  }
  std::erase_if(prefilled_, [&](const SequencePtr& sequence) {
    const bool written = sequence->kv_unwritten == nullptr || *sequence->kv_unwritten == 0;
    if (!written && !sequence->gate->closed() && clock_.Now() < sequence->deadline) return false;
    ++stats_.prefill_requests;
    Emission emission{std::move(sequence->gate), v1::GenerateChunk(), true};
    FillLast(*sequence, v1::FINISH_STOP, &*emission.chunk);
    out->push_back(std::move(emission));
    return true;
  });
}

}  // namespace ingot::rollout
