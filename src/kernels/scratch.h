// Provides uninitialized memory for a kernel's computation, aligned to a cache line. Each thread reuses the blocks that
// it has returned. Otherwise, each call would map and zero new pages, often a megabyte or more, which costs more than a
// small matrix multiplication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ingot::kernels::tiles {

struct GiveScratchBack {
  size_t bytes = 0;
  void operator()(std::byte* block) const;  // returns the block to the calling thread
};
using ScratchBlock = std::unique_ptr<std::byte, GiveScratchBack>;

// Returns a block with at least `bytes` bytes. Throws std::bad_alloc.
ScratchBlock TakeScratch(size_t bytes);

// Provides space for `count` numbers.
template <typename T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Scratch(int64_t count) : block_(TakeScratch(static_cast<size_t>(count) * sizeof(T))) {}
  T* get() const { return reinterpret_cast<T*>(block_.get()); }

 private:
  ScratchBlock block_;
};

}  // namespace ingot::kernels::tiles
