// Uses Ingot's model on the CPU as the reference for another engine's log-probs.
#pragma once

#include <memory>

#include "engines/verification/weight_reference.h"
#include "model/config.h"

namespace ingot::app {

// Returns a reference for models with this shape. It shares a snapshot's memory and needs little additional memory. Its
// log-probs equal those of Ingot's engine on the CPU, bit for bit. `threads` is the number of compute threads; 0 = as
// many as the calling thread has.
std::unique_ptr<engines::WeightReference> NewWeightReference(const model::ModelConfig& shape, int threads);

}  // namespace ingot::app
