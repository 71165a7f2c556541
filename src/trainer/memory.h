// What a training step will hold, predicted from shapes alone, and what the process holds.
//
//   weights, optimizer state                     as long as the trainer lives
//   gradients                                    from the first backward pass to the update
//   waiting parts: histories, keys and values    tree/cut.h, MostKept
//   the running part: histories, then the widest moment of its backward pass, or of its logits
//
// Counted are tensors and the kernels' scratch on the model's device; not the token ids, which are small, nor what
// torch and the allocator keep for themselves. Within 20 % of what is measured on two shapes; where
// a path runs through many small parts (8 of 1024 rows) the process held up to 40 % more than predicted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "trainer/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {

struct MemoryNeed {
  int64_t weights = 0, optimizer = 0, gradients = 0;
  int64_t waiting = 0;    // parts that wait for later ones
  int64_t running = 0;    // histories of the part that runs
  int64_t transient = 0;  // the widest moment beside them

  int64_t step() const {
    return gradients + waiting + running + transient;
  }  // apart from what the trainer holds anyway
  int64_t total() const { return weights + optimizer + step(); }
  std::string Describe() const;  // "3.2 GB: weights 0.6, optimizer 1.2, ..."
};

// `element_bytes` of the weights: 2, 4 or 8. `parts` of the batch; for a run whose batches are not known yet, the one
// that UncutPart makes.
MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts);

// A part of `rows` rows that sees no other: the least that a run with such micro-batches holds.
tree::ForestPart UncutPart(int64_t rows);

// Bytes that can still be had on this machine: the kernel's estimate, or what the control group leaves, if that is
// less. The largest number where neither can be read.
int64_t AvailableMemory();

// RESOURCE_EXHAUSTED with both numbers and what to change, if `bytes` of `need` are more than `available`.
absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options);

// The process's resident bytes, and the most since ResetPeakMemory (which also gives freed memory back, so that it is
// not counted twice). 0 and false where the system does not tell.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

}  // namespace ingot::trainer
