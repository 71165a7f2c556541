#include "rollout/cache/kv_writer.h"

#include <algorithm>
#include <span>
#include <utility>

namespace ingot::rollout {
namespace {

constexpr size_t kMostKnown = size_t{1} << 16;

}  // namespace

struct KvWriter::Put {
  StoreRootPtr root;
  kv::Chunk chunk;
  ChunkBuffer bytes;
  std::shared_ptr<std::atomic<int32_t>> unwritten;
};

KvWriter::KvWriter(kv::Store* store, const kv::Options& options, std::function<void()> wake)
    : store_(*store), options_(options), wake_(std::move(wake)), thread_({.name = "kv writer"}) {}

KvWriter::~KvWriter() {
  stopping_ = true;
  thread_.Shutdown();
}

void KvWriter::Offer(Sequence& sequence, const StoreRootPtr& root) {
  if (options_.write == kv::Write::kNone || sequence.kv_mixed) return;
  const auto chunk = static_cast<size_t>(options_.chunk_tokens);
  const size_t most = options_.write == kv::Write::kAll ? sequence.tokens.size() : sequence.prompt_size;
  const size_t end = std::min(sequence.published / root->blocks_per_chunk, most / chunk);
  if (sequence.kv_offered >= end) return;
  const size_t begin = std::exchange(sequence.kv_offered, end);
  const auto ids = std::span<const int32_t>(sequence.tokens).first(end * chunk);
  if (!sequence.contents.KeyOf(0, ids.size()).empty()) return;  // a chunk's key has only ids
  TakeFailed();
  const std::vector<kv::Chunk> chain = kv::ChainOf(root->key, ids, options_.chunk_tokens);
  for (size_t i = begin; i < end; ++i) OfferChunk(sequence, root, chain[i], i);
}

void KvWriter::OfferChunk(Sequence& sequence, const StoreRootPtr& root, const kv::Chunk& chunk, size_t index) {
  // A chunk that another engine waits for may have been removed, or still waits to be written.
  if (!sequence.prefill_only && known_.contains(chunk.key)) return;
  if (pending_bytes_ + root->chunk_bytes > options_.max_pending_bytes) {
    ++dropped_;
    return;
  }
  if (sequence.kv_unwritten == nullptr) sequence.kv_unwritten = std::make_shared<std::atomic<int32_t>>(0);
  auto put = std::make_shared<Put>(Put{root, chunk, ChunkBuffer(root), sequence.kv_unwritten});
  const size_t count = root->blocks_per_chunk;
  put->bytes.CopyFrom(std::span(sequence.blocks).subspan(index * count, count));
  pending_bytes_ += root->chunk_bytes;
  ++*put->unwritten;
  Remember(chunk.key);
  thread_.Post([this, put = std::move(put)] { Write(*put); });
}

// Runs on the writer's thread.
void KvWriter::Write(Put& put) {
  const bool written = !stopping_ && store_.Put(put.root->root, put.chunk, put.bytes.ToWrite()).ok();
  if (!written) {
    base::MutexLock lock(mu_);
    failed_.push_back(put.chunk.key);
  }
  pending_bytes_ -= put.root->chunk_bytes;
  --*put.unwritten;
  if (!stopping_) wake_();
}

void KvWriter::TakeFailed() {
  std::vector<base::Key128> failed;
  {
    base::MutexLock lock(mu_);
    failed.swap(failed_);
  }
  for (const base::Key128& key : failed) known_.erase(key);
}

void KvWriter::Remember(const base::Key128& key) {
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert(key);
}

}  // namespace ingot::rollout
