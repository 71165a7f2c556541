// Arguments for the CUDA kernels that gather a tensor's changed elements (changes.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

inline constexpr int kChangesGroup = 64;     // elements whose marks are one entry of a weights::ChangeMask
inline constexpr int kChangesThreads = 256;  // groups per block, one per thread
inline constexpr int kChangesListed = 8;     // a group with at least this many changes sends its marks, not a list
inline constexpr int kChangesScanThreads = 1024;

// A tensor's marks.
struct ChangesMarks {
  const uint64_t* entries;  // [groups()]; bit i % 64 of entry i / 64 is set if element i changed
  int64_t count;            // elements; bits from here on are ignored

  INGOT_HOST_DEVICE int64_t groups() const { return (count + kChangesGroup - 1) / kChangesGroup; }
  int64_t blocks() const { return (groups() + kChangesThreads - 1) / kChangesThreads; }
};

// The sizes of several groups' lists: the number of values in the high 32 bits, and of bytes of places in the low ones.
using ChangesSize = uint64_t;

struct CountChangesArgs {
  ChangesMarks marks;
  ChangesSize* sizes;  // [blocks()]
};

struct ScanChangesArgs {
  ChangesSize* sizes;  // [blocks + 1]; becomes the sums of the sizes before each block, and of all of them
  int64_t blocks;
};

struct GatherChangesArgs {
  ChangesMarks marks;
  const void* elements;                // [count], of 2 or 4 bytes
  const ChangesSize* starts;           // [blocks() + 1], from ScanChangesKernel
  int64_t first;                       // the first block to gather; the grid has the number of blocks
  uint8_t* counts;                     // [groups of these blocks]
  uint8_t* places;                     // [places_limit]
  void* values;                        // [values_limit]
  int64_t places_limit, values_limit;  // nothing is written from here on
};

}  // namespace ingot::kernels::cuda
