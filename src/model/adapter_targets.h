// The products of a model that low-rank adapters may change, by the names of LoraConfig::targets.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace ingot::model {

// The targets that the layers have, each once, in the order of their computation. REQUIRES: the configuration is valid,
// except for its adapters, which do not matter.
std::vector<std::string> AdapterTargets(const ModelConfig& config);

// The default targets, sorted: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj if the model has them
// all. Otherwise all of its targets except routed experts and the gate of a shared expert. REQUIRES: the same.
std::vector<std::string> DefaultTargets(const ModelConfig& config);

}  // namespace ingot::model
