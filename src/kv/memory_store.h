// Keeps chunks in this process's memory, where other engines can pull them (rollout/cache/kv_pull_service.h). If a chunk
// does not fit, the least recently used ones are removed, those at the end of a chain first. Put removes the chunks of
// roots that are no longer held, because freeing gigabytes would delay an engine's step in Hold. Thread safe. No
// function blocks on I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "kv/options.h"
#include "kv/store.h"

namespace ingot::kv {

inline constexpr std::string_view kMemoryPath = "memory://";  // the path of a store in memory (Options::path)
inline bool IsInMemory(const Options& options) { return options.path == kMemoryPath; }

// Immutable, so it may be read after the store has removed it.
struct KeptChunk {
  std::string root;  // Root::Text
  Chunk chunk;
  std::string header;                   // EncodeHeader
  std::unique_ptr<std::byte[]> planes;  // one after the other
  int64_t plane_bytes = 0;              // of all planes

  int64_t bytes() const { return std::ssize(header) + plane_bytes; }
};
using KeptChunkPtr = std::shared_ptr<const KeptChunk>;

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(int64_t max_bytes) : max_bytes_(max_bytes) {}

  int64_t Longest(const Root& root, std::span<const Chunk> chain) override;
  absl::Status Get(const Root& root, const Chunk& chunk, const PlanesToRead& planes) override;
  absl::Status Put(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) override;
  void Hold(std::vector<base::Key128> roots) override;
  StoreStats stats() const override;

  // Returns whether a chunk with this key is stored.
  bool Has(const base::Key128& key) const;
  // Returns the chunk if it is stored under the root with this text, and counts as its last use; null = it is not.
  KeptChunkPtr Find(std::string_view root, const Chunk& chunk);

 private:
  struct Entry {
    KeptChunkPtr chunk;
    std::list<base::Key128>::iterator place;  // in `order_`
  };
  using Entries = absl::flat_hash_map<base::Key128, Entry, base::Key128Hash>;

  void Insert(KeptChunkPtr chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Retire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Touch(const base::Key128& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t max_bytes_;
  mutable base::Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
  std::list<base::Key128> order_ ABSL_GUARDED_BY(mu_);  // least recently used first
  std::vector<base::Key128> held_ ABSL_GUARDED_BY(mu_);
  bool held_changed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<KeptChunkPtr> removed_ ABSL_GUARDED_BY(mu_);  // freed outside of the lock
  StoreStats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::kv
