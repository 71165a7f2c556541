// Holds the objects shared by all of a gateway's answers and calls. Internal to this directory. The public interface is
// gateway.h.
//
//   Gateway owns Core;  Answer and ChatCall borrow it
//     options, parts    constant: the configuration and the services that the gateway uses
//     admin_key         constant
//     planner           plans prompts for requests
//     backends          the engine and the weights for each model name
//     counters          for /metrics and Status
//     lost_tools        counts calls with tools that the chat format cannot express
//     started_unix_ns   when the gateway was created
//     workers           run Answer::Prepare and Gateway's blocking calls
//     writers           run ChatCall::Complete, which waits for the pool's disk; separate so requests never wait
#pragma once

#include "base/executor.h"
#include "gateway/admin_key.h"
#include "gateway/backends.h"
#include "gateway/counters.h"
#include "gateway/lost_tools.h"
#include "gateway/options.h"
#include "gateway/parts.h"
#include "gateway/prompt/prompt_plan.h"

namespace ingot::gateway {

struct Core {
  Core(GatewayOptions opts, GatewayParts services);

  const GatewayOptions options;
  const GatewayParts parts;
  const AdminKey admin_key;
  const PromptPlanner planner;
  const Backends backends;
  const int64_t started_unix_ns;
  Counters counters;
  LostTools lost_tools;
  base::Executor writers;
  base::Executor workers;  // declared last, so its threads are joined before other members are destroyed
};

// Returns the error for requests during and after Gateway::Shutdown.
absl::Status ShuttingDown();

}  // namespace ingot::gateway
