// Brings the changed elements of tensors on a device to the host, without the others (cuda/changes.cuh). Torch operators
// that libingot_cuda.so implements count, scan, and gather them. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

// A tensor on a device, and the marks of its changed elements.
struct MarkedTensor {
  at::Tensor elements;  // dense, elements of 2 or 4 bytes
  at::Tensor
      marks;  // int64 [numel / 64, rounded up]: the entries of a weights::ChangeMask; bits past numel are ignored
};

// The changed elements of a tensor.
struct GatheredChanges {
  std::vector<uint64_t> marks;    // as MarkedTensor::marks
  std::vector<std::byte> values;  // the marked elements, in order
};

// The device memory for lists of changes, which are copied to the host when it is full. The lists of a tensor that
// changed everywhere need more than its elements.
inline constexpr int64_t kChangesBufferBytes = int64_t{16} << 20;
// The least that GatherChanges takes: the lists of one block.
inline constexpr int64_t kChangesLeastBytes = int64_t{68} << 10;

// Returns the device memory that GatherChanges uses for tensors with `elements` elements of `element_bytes` in total.
int64_t GatherChangesBytes(int64_t elements, int64_t element_bytes);

// Returns the changes of each tensor. Leaves the marks as they are. The tensors are on one device. `buffer_bytes` bounds
// the memory for lists. Throws if it is less than kChangesLeastBytes, or if a list does not match its counts.
std::vector<GatheredChanges> GatherChanges(std::span<const MarkedTensor> tensors,
                                           int64_t buffer_bytes = kChangesBufferBytes);

// The sizes of the lists of several blocks in a buffer: counts, places, and values, each list aligned to 8 bytes.
struct ChangesLists {
  int64_t groups = 0, places = 0, values = 0;

  int64_t places_at() const { return Aligned(groups); }
  int64_t values_at() const { return places_at() + Aligned(places); }
  int64_t bytes(int64_t element_bytes) const { return values_at() + Aligned(values * element_bytes); }
  static int64_t Aligned(int64_t bytes) { return (bytes + 7) / 8 * 8; }
};

// Returns the number of blocks of a tensor with `count` elements. Each block has 256 groups of 64 elements.
int64_t ChangesBlocks(int64_t count);

// Counts and scans. `starts` is int64 [ChangesBlocks(count) + 1]: per block, the values before it in the high 32 bits, and
// the bytes of places in the low ones.
void CountChangesOp(const at::Tensor& marks, int64_t count, const at::Tensor& starts);
// Writes the lists of `blocks` blocks from `first` on into `out` (bytes), as `lists` says.
void GatherChangesOp(const MarkedTensor& tensor, const at::Tensor& starts, int64_t first, int64_t blocks,
                     const ChangesLists& lists, const at::Tensor& out);

using CountChangesSignature = void(const at::Tensor& marks, int64_t count, const at::Tensor& starts);
using GatherChangesSignature = void(const at::Tensor& elements, const at::Tensor& marks, const at::Tensor& starts,
                                    int64_t first, int64_t blocks, int64_t places, int64_t values,
                                    const at::Tensor& out);

}  // namespace ingot::kernels
