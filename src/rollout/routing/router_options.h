// The options for choosing a request's engine. Bind declares each key with its meaning and bounds.
#pragma once

#include <cstdint>

namespace ingot::base {
class Schema;
}

namespace ingot::rollout {

// The last two are baselines for `ingot simulate router`. No key selects them.
enum class RouterPolicy { kCost, kFewest, kRoundRobin, kSticky };

struct RouterOptions {
  RouterPolicy policy = RouterPolicy::kCost;
  double stay = 1.2;        // an episode leaves its engine if that costs more than this times the least cost
  double load_weight = 64;  // cost of one more request in flight, in prompt tokens
};

void Bind(base::Schema& schema, RouterOptions& options);

}  // namespace ingot::rollout
