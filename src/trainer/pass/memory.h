// Predicts the memory of a training step from shapes alone. The prediction visits the parts in the order of
// forest_pass.cc, part_run.cc, and head_pass.cc:
//
//   weights, optimizer state     for the trainer's lifetime, with the position tables
//   copies of the weights        the reference policy, and (one rank's) the published version
//   gradients                    from the first backward pass to the update
//   waiting parts                tensors for their backward passes, keys and values, and their gradients
//   the running part             the same for the unfinished layers
//   its peak                     a layer's attention or activation backward, the logits, or the update of the weights
//
// Counts everything that grows with rows, keys, or parameters: tensors, the kernels' scratch, and the tables for
// splitting. Excludes the batch itself, which already exists; memory that libraries keep after they run; and the
// kernels' permanent scratch, at most 8 MiB per thread (kernels/scratch.h). Tests compare the prediction with the
// measured peaks of the tensors and of the process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {

// The operators that run the layers: the kernels of src/kernels on the CPU, or ATen's on other devices, whose backward
// passes need more memory (layer_memory.h).
enum class Operators : uint8_t { kNative, kAten };

struct MemoryNeed {
  int64_t weights = 0, optimizer = 0, copies = 0;
  // At the peak:
  int64_t gradients = 0;
  int64_t waiting = 0;    // parts that wait for later parts
  int64_t running = 0;    // the running part
  int64_t transient = 0;  // temporaries at the peak

  int64_t step() const { return gradients + waiting + running + transient; }  // excludes the trainer's permanent memory
  int64_t total() const { return weights + optimizer + copies + step(); }
  // Returns an upper bound for the process's memory, in bytes. For 27 shapes, total() was 0.90 to 1.07 of the memory in
  // use. Libraries and heap fragmentation add more.
  int64_t bound() const { return total() + total() / 9 + (int64_t{48} << 20); }
  std::string Describe() const;  // like "3.2 GB (weights 0.6 GB, ...; at most 3.6 GB ...)"
};

// Returns the size in bytes of the weights and their position tables.
int64_t WeightBytes(const model::ModelConfig& config, int element_bytes);

// Predicts a step's memory without copies of the weights, which the caller adds. `element_bytes` of the weights is 2,
// 4, or 8. `parts` are the batch's parts, or UncutPart's result if there is no batch yet.
MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, Operators operators = Operators::kNative);

// Predicts only the passes, without the update. If `gradients_stay`, gradients are kept from one part to the next, as
// on one rank. With several ranks, they are freed at the end of each part (parallel/rank_memory.h).
MemoryNeed PredictPasses(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, bool gradients_stay,
                         Operators operators = Operators::kNative);

// Returns an independent part with `rows` rows and a loss entry on each row. It gives the minimum memory for a run with
// full micro-batches.
tree::ForestPart UncutPart(int64_t rows);

// Returns RESOURCE_EXHAUSTED, with both numbers and advice, if `bytes` of `need` exceed `available`.
absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options);

}  // namespace ingot::trainer
