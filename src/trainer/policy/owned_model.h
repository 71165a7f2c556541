// Models whose parameters belong to the trainer: in its type, on its device, in memory that nothing else shares.
#pragma once

#include <ATen/core/ScalarType.h>
#include <c10/core/Device.h>

#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace ingot::trainer {

// The type in which the trainer holds weights of type `given`, by TrainerOptions::dtype.
at::ScalarType HeldType(const std::string& dtype, at::ScalarType given);

// The policy's model, whose parameters are trained as the config says. `copy` false: parameters whose type and device
// stay are taken over. INVALID_ARGUMENT: the weights would be fp16; errors of Parameters::FromTensors.
absl::StatusOr<model::Transformer> TrainedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                                at::Device device, const std::string& dtype, bool copy);
// A model of copied parameters that no step trains.
absl::StatusOr<model::Transformer> FrozenModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                               at::Device device, const std::string& dtype);

}  // namespace ingot::trainer
