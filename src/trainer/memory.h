// What a training step will hold, predicted from shapes alone by going through what forest_pass.cc, part_run.cc and
// head_pass.cc do:
//
//   weights, optimizer state     as long as the trainer lives, with the tables of positions
//   copies of the weights        beside them: the reference policy, and (one rank's) the version that was published
//   gradients                    from the first backward pass to the update
//   waiting parts                what their backward passes need, keys and values, and the gradients of those
//   the running part             the same, of the layers that are not done
//   its widest moment            a layer's attention or activation backward, the logits, or the update of the weights
//
// Counted is whatever grows with rows, keys or parameters: tensors, the kernels' scratch, the cut's tables. Not counted
// are the batch itself, which is held before, what libraries keep for themselves once they have run, and what the
// kernels keep of their scratch, 8 MiB a thread at most (kernels/scratch.h). Tests hold it
// against what is really in use and what the process holds.
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
  int64_t weights = 0, optimizer = 0, copies = 0;
  // Of the fullest moment:
  int64_t gradients = 0;
  int64_t waiting = 0;    // parts that wait for later ones
  int64_t running = 0;    // the part that runs
  int64_t transient = 0;  // what that moment makes beside them

  int64_t step() const {
    return gradients + waiting + running + transient;
  }  // apart from what the trainer holds anyway
  int64_t total() const { return weights + optimizer + copies + step(); }
  // What the process will not hold more than: total() was 0.90 to 1.07 of what was in use on 27 shapes, and libraries
  // and the heap's holes keep something beside it.
  int64_t bound() const { return total() + total() / 9 + (int64_t{48} << 20); }
  std::string Describe() const;  // "3.2 GB (weights 0.6 GB, ...; at most 3.6 GB ...)"
};

// Of the weights, with their tables of positions.
int64_t WeightBytes(const model::ModelConfig& config, int element_bytes);

// Without copies of the weights, which are the caller's. `element_bytes` of the weights: 2, 4 or 8. `parts` of the
// batch; for a run whose batches are not known yet, the one that UncutPart makes.
MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts);

// The same of the passes alone, without the update. `gradients_stay`: from a part to the next, as one rank's do; those
// of several ranks leave when a part ends (parallel/rank_memory.h).
MemoryNeed PredictPasses(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, bool gradients_stay);

// A part of `rows` rows that sees no other, each read by the loss: the least that a run holds whose batches fill a
// micro-batch.
tree::ForestPart UncutPart(int64_t rows);

// RESOURCE_EXHAUSTED with both numbers and what to change, if `bytes` of `need` are more than `available`.
absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options);

}  // namespace ingot::trainer
