// Finds the tensor and trajectories at fault in a step with a non-finite loss or gradient. Runs only after such a step.
// Throws c10::Error.
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

// Returns "tensor NAME: 3 of 256 elements of its weights are not finite; 2 more tensors too", or the same for gradients
// if all weights are finite. Empty = all are finite. `gradients` are by name, as returned by AdamW::Gradients.
std::string NonFiniteTensors(const model::Transformer& model, const std::map<std::string, at::Tensor>& gradients);

// Returns INVALID_ARGUMENT, naming the first tensor that is not finite. Such weights cannot be trained.
absl::Status CheckFinite(const model::Parameters& parameters);

// Runs each of `calls` (indices into the batch's calls) separately until it has found `limit` calls without a finite
// gradient. Destroys the model's gradients. Used for a step with finite log-probs but a non-finite gradient.
std::vector<int32_t> CallsWithoutFiniteGradient(const model::Transformer& model, const PreparedBatch& batch,
                                                std::span<const int32_t> calls, StepLoss& loss,
                                                const PassOptions& options, size_t limit);

// Returns "calls A, B, C, D and at least 3 more", without duplicates, in the batch's order.
std::string NameCalls(const PreparedBatch& batch, std::vector<int32_t> calls);

}  // namespace ingot::trainer
