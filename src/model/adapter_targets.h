// Lists the matrix products of a model that low-rank adapters may change, by their names in LoraConfig::targets.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace ingot::model {

// Returns the targets in the layers, without duplicates, in computation order. Ignores the configuration's adapters.
// REQUIRES: the rest of the configuration is valid.
std::vector<std::string> AdapterTargets(const ModelConfig& config);

// Returns the default targets, sorted: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, and down_proj if the model
// has all of them. Otherwise returns all of its targets except routed experts and the gate of a shared expert.
// REQUIRES: same as AdapterTargets.
std::vector<std::string> DefaultTargets(const ModelConfig& config);

}  // namespace ingot::model
