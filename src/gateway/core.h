// The objects that all answers and calls of a gateway share. Internal to the folder; gateway.h is the interface.
//
//   Gateway owns Core;  Answer and ChatCall borrow it
//     options, parts    constant: the configuration, and the services below
//     admin_key         constant
//     planner           prompts of requests
//     backends          the engine and weights of a model name
//     counters          for /metrics and Status
//     lost_tools        calls with tools that the chat format cannot express
//     started_unix_ns   when the gateway was made
//     workers           run Answer::Prepare and the blocking calls of Gateway
//     writers           run ChatCall::Complete, which waits for the pool's disk: new requests never wait for a writer
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
  base::Executor workers;  // last: its threads are joined before the rest is destroyed
};

// The error of requests during and after Gateway::Shutdown.
absl::Status ShuttingDown();

}  // namespace ingot::gateway
