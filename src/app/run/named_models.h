// Resolves references from other configuration keys to models in gateway.models. Pure. Does not call any model.
#pragma once

#include <set>
#include <string>

#include "base/status.h"
#include "gateway/options.h"
#include "reward/options.h"

namespace ingot::app {

// Returns the model with this name, or null if there is none.
const gateway::ModelOptions* FindModel(const gateway::GatewayOptions& gateway, const std::string& name);

// Returns the names whose weights do not follow training, such as a sub-agent's. All other names refer to the policy or,
// in a collection, to its model.
std::set<std::string> OtherModels(const gateway::GatewayOptions& gateway);

// Returns whether any term calls a model in gateway.models.
bool AsksModels(const reward::RewardOptions& rewards);

// Returns INVALID_ARGUMENT if such a term does not name a pinned or external model in gateway.models.
absl::Status CheckAskedModels(const reward::RewardOptions& rewards, const gateway::GatewayOptions& gateway);

}  // namespace ingot::app
