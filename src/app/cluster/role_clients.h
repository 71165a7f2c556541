// The other roles of a run as one role calls them. Each client is an object of this process or a gRPC stub.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/run/uncalled_episodes.h"
#include "datapool/client.h"
#include "rollout/client.h"
#include "scheduler/client.h"

namespace ingot::agents {
class Episodes;
}  // namespace ingot::agents

namespace ingot::gateway {
class Admission;
}  // namespace ingot::gateway

namespace ingot::scheduler {
class RemoteGrader;
}  // namespace ingot::scheduler

namespace ingot::app {

// Null = this role does not call it, or the run does not have it. Destroyed in the reverse order: each client may call
// the ones before it.
struct RoleClients {
  std::shared_ptr<datapool::Client> pool;
  std::shared_ptr<rollout::Client> engine;                                        // all engines of the run as one
  std::vector<std::pair<std::string, std::shared_ptr<rollout::Client>>> engines;  // each by its name, for the page
  std::map<std::string, std::shared_ptr<rollout::Client>>
      external;                                      // models of other servers, by name (gateway.models)
  std::shared_ptr<scheduler::RemoteGrader> rewards;  // null = the reward stage is in the scheduler's process
  std::shared_ptr<scheduler::Client> scheduler;
  std::shared_ptr<gateway::Admission> admission;  // the scheduler as the gateway calls it; MakeGateway sets it
  std::shared_ptr<agents::Episodes> episodes;     // the gateway as the agents' runner calls it
  Gateways gateways;                              // whose episodes the run waits for
};

}  // namespace ingot::app
