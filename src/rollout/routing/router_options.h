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
  double load_weight = 64;  // prompt tokens that one more request in flight counts as
  // Prefill and decode apart: engines 0 to prefill_engines - 1 compute long prompts, which the others read from the KV
  // store. A preference: without such an engine, or after prefill_wait_ms, the engine that samples computes the prompt.
  int32_t prefill_engines = 0;
  int32_t prefill_min_tokens = 1024;
  int64_t prefill_wait_ms = 10000;
};

void Bind(base::Schema& schema, RouterOptions& options);

}  // namespace ingot::rollout
