// A cache of the memory of large CPU tensors: freed blocks stay in the process for the next tensors.
//
// A training step makes and frees thousands of tensors of megabytes. If each block returns to the system, the system
// clears every page before it gives it out again: a quarter of a bf16 step's time when products are fast.
//
// Live and cached blocks together never exceed the fullest moment of live tensors, because a cached block serves the
// next tensor of any size. If no block is large enough, mremap joins the pages of several blocks, at a small part of
// the cost of clearing them. New pages are mapped only when the cache is empty.
#pragma once

#include <cstdint>

namespace ingot::trainer {

// From now on CPU tensors of 1 MiB and more come from the cache, in the whole process. Call it before other threads
// make tensors; further calls change nothing.
void KeepTensorMemory();

struct TensorMemory {
  int64_t live = 0;    // bytes of large tensors
  int64_t cached = 0;  // bytes in the cache
  int64_t pieces = 0;  // upper bound of the system's mappings for both
};
TensorMemory TensorMemoryNow();

// Lets the system take cached pages under memory pressure, until tensors use them again. Call this after a step, when
// other work runs.
void OfferTensorMemory();

// Returns the cache to the system.
void ReleaseTensorMemory();

}  // namespace ingot::trainer
