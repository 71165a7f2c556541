#include "weights/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ingot::weights {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateBuffer(int64_t bytes) {
  const size_t size = std::max<int64_t>(bytes, 1);
  void* memory = ::operator new(size, kAlignment, std::nothrow);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate memory for a weight tensor of ", bytes, " bytes"));
  }
  return std::shared_ptr<std::byte[]>(static_cast<std::byte*>(memory),
                                      [](std::byte* buffer) { ::operator delete(buffer, kAlignment); });
}

absl::StatusOr<std::shared_ptr<std::byte[]>> BufferPool::Acquire(int64_t bytes) {
  std::shared_ptr<std::byte[]> buffer;
  {
    const base::MutexLock lock(free_->mu);
    auto& free = free_->buffers[bytes];
    if (!free.empty()) {
      buffer = std::move(free.back());
      free.pop_back();
    }
  }
  if (buffer == nullptr) {
    INGOT_ASSIGN_OR_RETURN(buffer, AllocateBuffer(bytes));
  }
  {
    const base::MutexLock lock(free_->mu);
    ++free_->taken[bytes];
  }
  std::byte* const memory = buffer.get();
  return std::shared_ptr<std::byte[]>(memory, [to = std::weak_ptr(free_), bytes, owned = std::move(buffer)](
                                                  std::byte*) mutable { GiveBack(to, bytes, std::move(owned)); });
}

void BufferPool::GiveBack(const std::weak_ptr<FreeBuffers>& to, int64_t bytes, std::shared_ptr<std::byte[]> buffer) {
  const std::shared_ptr<FreeBuffers> pool = to.lock();
  if (pool == nullptr) return;
  const base::MutexLock lock(pool->mu);
  auto& free = pool->buffers[bytes];
  const int64_t taken = --pool->taken[bytes];
  if (std::ssize(free) < std::max<int64_t>(taken, 1)) free.push_back(std::move(buffer));
}

void BufferPool::Clear() {
  const base::MutexLock lock(free_->mu);
  free_->buffers.clear();
}

int64_t BufferPool::free_bytes() const {
  const base::MutexLock lock(free_->mu);
  int64_t bytes = 0;
  for (const auto& [size, buffers] : free_->buffers) bytes += size * std::ssize(buffers);
  return bytes;
}

}  // namespace ingot::weights
