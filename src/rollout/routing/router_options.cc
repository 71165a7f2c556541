#include "rollout/routing/router_options.h"

#include "base/config.h"

namespace ingot::rollout {

void Bind(base::Schema& schema, RouterOptions& o) {
  schema.Choice("policy", &o.policy, {"cost", "fewest"},
                "how a call's engine is chosen: cost: the least estimated time to the first token, from the engine's "
                "queue, its speed, and the prompt that it has in its KV cache; fewest: the fewest calls in flight");
  schema.Field(
      "stay", &o.stay,
      "with policy cost, a call leaves its episode's last engine only if that engine costs more than this times the "
      "least cost, plus 5 ms",
      base::InRange(1, 100));
  schema.Field("load_weight", &o.load_weight,
               "with policy cost, the cost of one more call in flight on an engine, in prompt tokens",
               base::InRange(0, 1000000));
  schema.Field("prefill_engines", &o.prefill_engines,
               "number of engines, from rollout-0 on, that compute long prompts for the others, which read them from "
               "rollout.kv_store or pull them from these engines (rollout.kv_store.path: memory://); these engines "
               "sample only if no other engine accepts a call; 0: every engine computes "
               "its own prompts",
               base::NotNegative());
  schema.Field("prefill_min_tokens", &o.prefill_min_tokens,
               "with prefill_engines, prompt tokens that the sampling engine would have to compute from which a prompt "
               "is computed by another engine",
               base::Positive());
  schema.Field("prefill_wait_ms", &o.prefill_wait_ms,
               "with prefill_engines, milliseconds after which the sampling engine computes the prompt itself",
               base::Positive());
}

}  // namespace ingot::rollout
