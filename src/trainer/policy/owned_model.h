// Creates models that the trainer owns: their parameters have the trainer's type, are on its device, and share no
// memory with other objects.
#pragma once

#include <ATen/core/ScalarType.h>
#include <c10/core/Device.h>

#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace ingot::trainer {

// Returns the type that the trainer uses for weights with type `given`, according to TrainerOptions::dtype.
at::ScalarType HeldType(const std::string& dtype, at::ScalarType given);

// Returns the policy's model. Its config determines which parameters are trained. If `copy` is false, takes over those
// parameters that already have the right type and device. Returns INVALID_ARGUMENT if the weights would be fp16, and
// the errors of Parameters::FromTensors.
absl::StatusOr<model::Transformer> TrainedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                                at::Device device, const std::string& dtype, bool copy);
// Returns a model with copied parameters that no step trains.
absl::StatusOr<model::Transformer> FrozenModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                               at::Device device, const std::string& dtype);

}  // namespace ingot::trainer
