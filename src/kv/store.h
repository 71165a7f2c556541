// Stores chunks that engines share (chunk.h).
//
// All functions are thread safe and block on I/O, so they must not be called on an engine's step thread. After any
// failure, the caller computes the chunk itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/chunk.h"

namespace ingot::kv {

struct StoreStats {
  int64_t corrupt = 0;        // chunks with wrong bytes; counts start when the store is opened
  int64_t put_chunks = 0;     // chunks written
  int64_t failed_puts = 0;    // chunks not written, because of an error
  int64_t retired_bytes = 0;  // removed by this process, because no engine held their version
  int64_t evicted_bytes = 0;  // removed by this process to free space
  int64_t bytes = 0;          // size of the store when this process last wrote to it
};

class Store {
 public:
  virtual ~Store() = default;

  // Returns the number of leading chunks of `chain` that the store probably has.
  virtual int64_t Longest(const Root& root, std::span<const Chunk> chain) = 0;

  // Reads a chunk into `planes`. After an error, `planes` may have any bytes.
  //   NOT_FOUND    the store does not have the chunk
  //   DATA_LOSS    the file is not this chunk or has wrong bytes, and is moved away
  //   UNAVAILABLE  the store cannot be read now
  virtual absl::Status Get(const Root& root, const Chunk& chunk, const PlanesToRead& planes) = 0;

  // Writes a chunk unless the store has it. Other readers see either the whole chunk or none of it. Returns UNAVAILABLE
  // if it cannot be written now, and RESOURCE_EXHAUSTED if it does not fit.
  virtual absl::Status Put(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) = 0;

  // Replaces the roots whose chunks this process may use. Chunks whose root has not been held by any process for a
  // while are removed.
  virtual void Hold(std::vector<base::Key128> roots) = 0;

  virtual StoreStats stats() const = 0;
};

}  // namespace ingot::kv
