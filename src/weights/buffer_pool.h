// Memory of versions, reused: two buffers of a tensor trade places. The newest version is in one of them. The next
// version is written into the other once the previous version has no reader left; until then it gets new memory. So no
// update waits for the system to give pages, and a pinned or retained version stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::weights {

// A buffer of at least one byte, 64-byte aligned, uninitialized. RESOURCE_EXHAUSTED: not enough memory.
absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateBuffer(int64_t bytes);

// Thread safe. Its buffers may outlive it.
class BufferPool {
 public:
  BufferPool() : free_(std::make_shared<FreeBuffers>()) {}

  // As AllocateBuffer. The buffer comes back when its last owner releases it.
  absl::StatusOr<std::shared_ptr<std::byte[]>> Acquire(int64_t bytes);

  // Gives the memory of all free buffers back to the system.
  void Clear();

  int64_t free_bytes() const;

 private:
  // Keeps at most one free buffer per taken buffer, so that a version that was held for a while leaves none.
  struct FreeBuffers {
    base::Mutex mu;
    std::map<int64_t, std::vector<std::shared_ptr<std::byte[]>>> buffers ABSL_GUARDED_BY(mu);  // by size
    std::map<int64_t, int64_t> taken ABSL_GUARDED_BY(mu);                                      // buffers, by size
  };
  static void GiveBack(const std::weak_ptr<FreeBuffers>& to, int64_t bytes, std::shared_ptr<std::byte[]> buffer);

  const std::shared_ptr<FreeBuffers> free_;
};

}  // namespace ingot::weights
