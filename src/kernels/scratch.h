// Memory that a kernel computes in, uninitialised, from a cache line on. What a thread gave back it gets again: a block
// of a megabyte would otherwise be mapped and its pages cleared at each call, which costs more than a small product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ingot::kernels::tiles {

struct GiveScratchBack {
  size_t bytes = 0;
  void operator()(std::byte* block) const;  // to the thread that calls it
};
using ScratchBlock = std::unique_ptr<std::byte, GiveScratchBack>;

// Throws std::bad_alloc.
ScratchBlock TakeScratch(size_t bytes);

// `count` numbers.
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
