// The memory of a training step, predicted only from shapes. The prediction walks through the parts in the order of
// forest_pass.cc, part_run.cc and head_pass.cc:
//
//   weights, optimizer state     as long as the trainer lives, with the tables of positions
//   copies of the weights        the reference policy, and (one rank's) the published version
//   gradients                    from the first backward pass to the update
//   waiting parts                tensors for their backward passes, keys and values, and their gradients
//   the running part             the same, for the layers that are not done
//   its widest moment            a layer's attention or activation backward, the logits, or the update of the weights
//
// Everything that grows with rows, keys or parameters is counted: tensors, the kernels' scratch, the cut's tables.
// Three things are not: the batch itself, which exists before; memory that libraries keep once they have run; and the
// kernels' permanent scratch, at most 8 MiB a thread (kernels/scratch.h). Tests compare the prediction with the
// measured peak of tensors and of the process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {

struct MemoryNeed {
  int64_t weights = 0, optimizer = 0, copies = 0;
  // Of the fullest moment:
  int64_t gradients = 0;
  int64_t waiting = 0;    // parts that wait for later parts
  int64_t running = 0;    // the running part
  int64_t transient = 0;  // temporaries of that moment

  int64_t step() const { return gradients + waiting + running + transient; }  // without the trainer's permanent memory
  int64_t total() const { return weights + optimizer + copies + step(); }
  // Upper bound of the process's memory, in bytes. On 27 shapes total() was 0.90 to 1.07 of the memory in use;
  // libraries and holes in the heap add to it.
  int64_t bound() const { return total() + total() / 9 + (int64_t{48} << 20); }
  std::string Describe() const;  // "3.2 GB (weights 0.6 GB, ...; at most 3.6 GB ...)"
};

// Bytes of the weights, with their tables of positions.
int64_t WeightBytes(const model::ModelConfig& config, int element_bytes);

// Predicts a step without copies of the weights, which the caller adds. `element_bytes` of the weights: 2, 4 or 8.
// `parts` of the batch; before a batch is known, the part that UncutPart makes.
MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts);

// The same for only the passes, without the update. `gradients_stay`: gradients stay from one part to the next, as on
// one rank; with several ranks they leave when a part ends (parallel/rank_memory.h).
MemoryNeed PredictPasses(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, bool gradients_stay);

// A part of `rows` rows that sees no other part, with a loss entry on each row: the least memory of a run whose batches
// fill a micro-batch.
tree::ForestPart UncutPart(int64_t rows);

// RESOURCE_EXHAUSTED, with both numbers and advice, if `bytes` of `need` are more than `available`.
absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options);

}  // namespace ingot::trainer
