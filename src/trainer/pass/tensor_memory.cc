#include "trainer/pass/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "model/device_memory.h"

namespace ingot::trainer {
namespace {

constexpr size_t kMin = size_t{1} << 20;
constexpr size_t kGrain = size_t{1} << 18;  // unit of sizes, and the smallest move
// Each piece may be a system mapping, and the system allows 65,530 per process. Pieces only become smaller. The cache
// is emptied when there are more than this many.
constexpr size_t kMaxPieces = 4096;

// Addresses [data, data + bytes). A block with several mappings remains divided; `pieces` are their sizes, in order.
struct Block {
  char* data = nullptr;
  size_t bytes = 0;
  std::vector<size_t> pieces;

  // Shortens this block to `first` bytes and returns the remainder.
  Block Split(size_t first) {
    Block rest{data + first, bytes - first, {}};
    size_t end = 0, i = 0;
    while (end + pieces[i] <= first) end += pieces[i++];
    if (end < first) {
      rest.pieces.push_back(end + pieces[i] - first);
      pieces[i++] = first - end;
    }
    rest.pieces.insert(rest.pieces.end(), pieces.begin() + static_cast<std::ptrdiff_t>(i), pieces.end());
    pieces.resize(i);
    bytes = first;
    return rest;
  }
};

// The allocator: separate blocks for large tensors, and the system's heap for the others. Both use the same deleter,
// because ATen also allocates through raw_allocate and may use it to free memory that torch's own allocator returned
// earlier.
class TensorCache final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    void* const data = n < kMin ? c10::alloc_cpu(n) : AcquireBlocks((n + kGrain - 1) / kGrain * kGrain);
    return {data, data, &Free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  TensorMemory Now() {
    base::MutexLock lock(mu_);
    return {static_cast<int64_t>(live_), static_cast<int64_t>(cached_bytes_), static_cast<int64_t>(pieces_)};
  }
  void Release() {
    base::MutexLock lock(mu_);
    Drop();
  }
  void Offer() {
    base::MutexLock lock(mu_);
    for (const auto& [bytes, block] : cached_) madvise(block.data, bytes, MADV_FREE);
  }

  // Never destroyed, because tensors may be freed while the process exits.
  static TensorCache& Get() {
    static auto* const memory = new TensorCache;
    return *memory;
  }

 private:
  static void Free(void* data) {
    constexpr uintptr_t kPage = 4096;
    const bool may_be_large = reinterpret_cast<uintptr_t>(data) % kPage == 0;
    if (!may_be_large || !Get().Recycle(data)) c10::free_cpu(data);
  }

  void* AcquireBlocks(size_t bytes) ABSL_LOCKS_EXCLUDED(mu_) {
    base::MutexLock lock(mu_);
    const auto fits = cached_.lower_bound(bytes);
    Block block = fits != cached_.end() ? TakeCached(fits) : Assemble(bytes);
    if (block.bytes > bytes) Cache(Split(block, bytes));
    live_ += bytes;
    void* const data = block.data;
    in_use_.emplace(data, std::move(block));
    return data;
  }

  // Returns false if `data` is not one of these blocks.
  bool Recycle(void* data) ABSL_LOCKS_EXCLUDED(mu_) {
    base::MutexLock lock(mu_);
    const auto found = in_use_.find(data);
    if (found == in_use_.end()) return false;
    live_ -= found->second.bytes;
    Cache(std::move(found->second));
    in_use_.erase(found);
    return true;
  }

  // Makes a block at new addresses. Uses as many pages from cached blocks as needed, and new pages for the remainder.
  Block Assemble(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (pieces_ > kMaxPieces) Drop();
    void* data = Map(bytes);
    if (data == MAP_FAILED) {  // cached blocks may occupy the addresses
      Drop();
      data = Map(bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, data != MAP_FAILED, "out of memory: a tensor of ", bytes,
                     " bytes, in addition to ", live_, " bytes of other tensors");
    Block block{static_cast<char*>(data), bytes, {}};
    size_t filled = 0;
    while (filled < bytes && !cached_.empty()) {
      Block from = TakeCached(std::prev(cached_.end()));
      if (from.bytes > bytes - filled) Cache(Split(from, bytes - filled));
      for (const size_t piece : from.pieces) {
        char* const to = block.data + filled;
        if (mremap(from.data, piece, piece, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
          munmap(from.data, piece);  // too many mappings; new pages work as well
        }
        block.pieces.push_back(piece);
        from.data += piece;
        filled += piece;
      }
    }
    if (filled < bytes) {
      block.pieces.push_back(bytes - filled);
      ++pieces_;
    }
    return block;
  }

  static void* Map(size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }

  Block Split(Block& block, size_t first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const size_t pieces = block.pieces.size();
    Block rest = block.Split(first);
    pieces_ += block.pieces.size() + rest.pieces.size() - pieces;
    return rest;
  }

  // Returns the cache to the system.
  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const auto& [bytes, block] : cached_) {
      munmap(block.data, bytes);
      pieces_ -= block.pieces.size();
    }
    cached_.clear();
    cached_bytes_ = 0;
  }

  void Cache(Block block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    cached_bytes_ += block.bytes;
    const size_t bytes = block.bytes;
    cached_.emplace(bytes, std::move(block));
  }
  Block TakeCached(std::multimap<size_t, Block>::iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Block block = std::move(at->second);
    cached_bytes_ -= block.bytes;
    cached_.erase(at);
    return block;
  }

  base::Mutex mu_;
  std::unordered_map<void*, Block> in_use_ ABSL_GUARDED_BY(mu_);
  std::multimap<size_t, Block> cached_ ABSL_GUARDED_BY(mu_);  // by size
  size_t live_ ABSL_GUARDED_BY(mu_) = 0, cached_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t pieces_ ABSL_GUARDED_BY(mu_) = 0;  // total pieces of all blocks
};

}  // namespace

void KeepTensorMemory() {
  static const bool once = [] {
    c10::SetCPUAllocator(&TensorCache::Get(), /*priority=*/1);
    return true;
  }();
  static_cast<void>(once);
}

TensorMemory TensorMemoryNow() { return TensorCache::Get().Now(); }

void OfferTensorMemory() { TensorCache::Get().Offer(); }

void ReleaseTensorMemory() { TensorCache::Get().Release(); }

void ReleaseTensorMemory(c10::Device device) {
  ReleaseTensorMemory();
  if (!device.is_cpu()) model::ReleaseDeviceMemory(device);
}

}  // namespace ingot::trainer
