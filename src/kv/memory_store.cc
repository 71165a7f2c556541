#include "kv/memory_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/chunk_io.h"

namespace ingot::kv {
namespace {

bool Equal(const Chunk& a, const Chunk& b) {
  return a.root == b.root && a.parent == b.parent && a.key == b.key && a.first == b.first && a.ids == b.ids;
}

KeptChunkPtr CopyOf(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) {
  auto copy = std::make_shared<KeptChunk>();
  copy->root = root.Text();
  copy->chunk = chunk;
  copy->header = EncodeHeader(chunk, root.plane_bytes, ChecksumsOf(planes));
  for (const int64_t bytes : root.plane_bytes) copy->plane_bytes += bytes;
  copy->planes = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(copy->plane_bytes));
  std::byte* at = copy->planes.get();
  for (const auto& plane : planes) {
    for (const std::span<const std::byte> piece : plane) at = std::copy(piece.begin(), piece.end(), at);
  }
  return copy;
}

}  // namespace

int64_t MemoryStore::Longest(const Root& /*root*/, std::span<const Chunk> chain) {
  return std::find_if(chain.begin(), chain.end(), [this](const Chunk& chunk) { return !Has(chunk.key); }) -
         chain.begin();
}

absl::Status MemoryStore::Get(const Root& root, const Chunk& chunk, const PlanesToRead& planes) {
  INGOT_RETURN_IF_ERROR(CheckSizes(planes, root));
  const KeptChunkPtr found = Find(root.Text(), chunk);
  if (found == nullptr) return absl::NotFoundError("the chunk is not in memory");
  const std::byte* at = found->planes.get();
  return ReadChunk(root, chunk, planes, kMemoryPath, [&](std::span<std::byte> bytes, int64_t offset) {
    if (offset == 0) {
      std::memcpy(bytes.data(), found->header.data(), bytes.size());  // sizes match because the chunks are equal
    } else {
      std::memcpy(bytes.data(), at, bytes.size());
      at += bytes.size();
    }
    return absl::OkStatus();
  });
}

absl::Status MemoryStore::Put(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) {
  INGOT_RETURN_IF_ERROR(CheckSizes(planes, root));
  if (Find(root.Text(), chunk) != nullptr) return absl::OkStatus();
  KeptChunkPtr copy = CopyOf(root, chunk, planes);
  const int64_t bytes = copy->bytes();
  std::vector<KeptChunkPtr> removed;  // freed after the lock
  base::MutexLock lock(mu_);
  Retire();
  if (bytes > max_bytes_) {
    ++stats_.failed_puts;
    removed.swap(removed_);
    return absl::ResourceExhaustedError(absl::StrCat("the KV store in memory may have ", max_bytes_,
                                                     " bytes, but a chunk has ", bytes,
                                                     "; raise rollout.kv_store.max_bytes or rollout.kv_cache_tokens"));
  }
  Insert(std::move(copy));
  removed.swap(removed_);
  ++stats_.put_chunks;
  return absl::OkStatus();
}

void MemoryStore::Insert(KeptChunkPtr chunk) {
  const base::Key128 key = chunk->chunk.key;
  const int64_t bytes = chunk->bytes();
  if (const auto same_key = entries_.find(key); same_key != entries_.end()) Remove(same_key);
  while (stats_.bytes + bytes > max_bytes_) {
    const auto oldest = entries_.find(order_.front());
    stats_.evicted_bytes += oldest->second.chunk->bytes();
    Remove(oldest);
  }
  entries_[key] = {std::move(chunk), order_.insert(order_.end(), key)};
  stats_.bytes += bytes;
  Touch(key);
}

// Removes the chunks of roots that are no longer held.
void MemoryStore::Retire() {
  if (!std::exchange(held_changed_, false)) return;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = entry++;
    const Chunk& chunk = next->second.chunk->chunk;
    if (std::find(held_.begin(), held_.end(), chunk.root) != held_.end()) continue;
    stats_.retired_bytes += next->second.chunk->bytes();
    Remove(next);
  }
}

// Moves the chunk and those before it in its chain to the end of the order, the first one last.
void MemoryStore::Touch(const base::Key128& key) {
  for (auto entry = entries_.find(key); entry != entries_.end();
       entry = entries_.find(entry->second.chunk->chunk.parent)) {
    order_.splice(order_.end(), order_, entry->second.place);
    if (entry->second.chunk->chunk.first == 0) break;
  }
}

void MemoryStore::Remove(Entries::iterator entry) {
  stats_.bytes -= entry->second.chunk->bytes();
  order_.erase(entry->second.place);
  removed_.push_back(std::move(entry->second.chunk));
  entries_.erase(entry);
}

void MemoryStore::Hold(std::vector<base::Key128> roots) {
  base::MutexLock lock(mu_);
  held_ = std::move(roots);
  held_changed_ = true;
}

StoreStats MemoryStore::stats() const {
  base::MutexLock lock(mu_);
  return stats_;
}

bool MemoryStore::Has(const base::Key128& key) const {
  base::MutexLock lock(mu_);
  return entries_.contains(key);
}

KeptChunkPtr MemoryStore::Find(std::string_view root, const Chunk& chunk) {
  base::MutexLock lock(mu_);
  const auto found = entries_.find(chunk.key);
  if (found == entries_.end() || found->second.chunk->root != root || !Equal(found->second.chunk->chunk, chunk)) {
    return nullptr;
  }
  Touch(chunk.key);
  return found->second.chunk;
}

}  // namespace ingot::kv
