// What to say of a step whose loss or gradient is not finite: which tensor, which trajectories. Only then is any of
// this computed. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/forest_pass.h"

namespace ingot::trainer {

// "tensor NAME: 3 of 256 elements of its gradient are not finite; 2 more tensors too", the parameters themselves first
// ("... of its weights ..."); empty if all is finite. `gradients` by name, as AdamW::Gradients gives them.
std::string NonFiniteTensors(const model::Transformer& model, const std::map<std::string, at::Tensor>& gradients);

// INVALID_ARGUMENT, naming the first tensor, if weights are not finite: no step can be made from them.
absl::Status CheckFinite(const model::Parameters& parameters);

// Runs each of `calls` (indices into the batch's) by itself until `limit` are found whose gradient is not finite.
// Spends the model's gradients. For where the log-probs were finite and the gradient was not.
std::vector<int32_t> CallsWithoutFiniteGradient(const model::Transformer& model, const PreparedBatch& batch,
                                                std::span<const int32_t> calls, StepLoss& loss,
                                                const PassOptions& options, size_t limit);

// "calls A, B and 3 more", in the batch's order, each once.
std::string NameCalls(const PreparedBatch& batch, std::vector<int32_t> calls);

}  // namespace ingot::trainer
