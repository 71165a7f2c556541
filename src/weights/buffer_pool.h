// Reuses version memory by alternating between two buffers per tensor. The newest version is in one of them. The next
// version is written into the other if the previous version has no readers left, and otherwise into new memory. So
// updates do not wait for the system to allocate pages, and a pinned or retained version is never overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::weights {

// Returns an uninitialized, 64-byte aligned buffer of at least one byte. Returns RESOURCE_EXHAUSTED if memory runs out.
absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateBuffer(int64_t bytes);

// Thread safe. Buffers may outlive the pool.
class BufferPool {
 public:
  BufferPool() : free_(std::make_shared<FreeBuffers>()) {}

  // Same as AllocateBuffer, but the buffer returns to the pool when its last owner releases it.
  absl::StatusOr<std::shared_ptr<std::byte[]>> Acquire(int64_t bytes);

  // Returns the memory of all free buffers to the system.
  void Clear();

  int64_t free_bytes() const;

 private:
  // Keeps at most one free buffer per taken buffer, so that a version that was held for a while leaves no extra
  // buffers.
  struct FreeBuffers {
    base::Mutex mu;
    std::map<int64_t, std::vector<std::shared_ptr<std::byte[]>>> buffers ABSL_GUARDED_BY(mu);  // by size
    std::map<int64_t, int64_t> taken ABSL_GUARDED_BY(mu);  // number of buffers, by size
  };
  static void GiveBack(const std::weak_ptr<FreeBuffers>& to, int64_t bytes, std::shared_ptr<std::byte[]> buffer);

  const std::shared_ptr<FreeBuffers> free_;
};

}  // namespace ingot::weights
