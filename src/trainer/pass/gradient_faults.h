// Names the faults of a step whose loss or gradient is not finite: the tensor and the trajectories. Computed only for
// such a step. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/pass/forest_pass.h"

namespace ingot::trainer {

// "tensor NAME: 3 of 256 elements of its weights are not finite; 2 more tensors too"; if all weights are finite, the
// same for gradients; empty = all are finite. `gradients`: by name, as AdamW::Gradients returns them.
std::string NonFiniteTensors(const model::Transformer& model, const std::map<std::string, at::Tensor>& gradients);

// INVALID_ARGUMENT names the first tensor that is not finite: such weights give no step.
absl::Status CheckFinite(const model::Parameters& parameters);

// Runs each of `calls` (indices into the batch's) separately until `limit` calls without a finite gradient are found.
// Destroys the model's gradients. For a step with finite log-probs whose gradient is not finite.
std::vector<int32_t> CallsWithoutFiniteGradient(const model::Transformer& model, const PreparedBatch& batch,
                                                std::span<const int32_t> calls, StepLoss& loss,
                                                const PassOptions& options, size_t limit);

// "calls A, B, C, D and at least 3 more", each once, in the batch's order.
std::string NameCalls(const PreparedBatch& batch, std::vector<int32_t> calls);

}  // namespace ingot::trainer
