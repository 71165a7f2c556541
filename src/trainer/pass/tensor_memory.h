// Caches the memory of large CPU tensors. Freed blocks stay in the process for later tensors.
//
// A training step allocates and frees thousands of multi-megabyte tensors. If blocks were returned to the system, it
// would have to clear their pages for the next allocations, which takes a quarter of a bf16 step's time if products are
// fast.
//
// Live and cached blocks together never exceed the peak of live tensors, because a cached block can serve the next
// tensor of any size. If no block is large enough, mremap joins pages from several blocks, which is much cheaper than
// clearing them. New pages are mapped only when the cache is empty.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ingot::trainer {

// Makes all of the process's large CPU tensors (1 MiB or more) use the cache from now on. Call before other threads
// create tensors. Later calls do nothing.
void KeepTensorMemory();

struct TensorMemory {
  int64_t live = 0;    // bytes of large tensors
  int64_t cached = 0;  // bytes in the cache
  int64_t pieces = 0;  // upper bound on the number of system mappings for both
};
TensorMemory TensorMemoryNow();

// Lets the system reclaim cached pages under memory pressure until tensors reuse them. Called after a step, when other
// work runs.
void OfferTensorMemory();

// Returns the cache to the system.
void ReleaseTensorMemory();
// The same, and also the memory that torch's allocator of `device` holds for reuse. Throws c10::Error.
void ReleaseTensorMemory(c10::Device device);

}  // namespace ingot::trainer
