// The models of gateway.models as other keys of the configuration name them. Pure; asks no model.
#pragma once

#include <string>

#include "base/status.h"
#include "gateway/options.h"
#include "reward/options.h"

namespace ingot::app {

// The named model of the options; null = there is none.
const gateway::ModelOptions* FindModel(const gateway::GatewayOptions& gateway, const std::string& name);

// True = some term asks a model of gateway.models.
bool AsksModels(const reward::RewardOptions& rewards);

// INVALID_ARGUMENT: such a term names no pinned or external model of gateway.models.
absl::Status CheckAskedModels(const reward::RewardOptions& rewards, const gateway::GatewayOptions& gateway);

}  // namespace ingot::app
