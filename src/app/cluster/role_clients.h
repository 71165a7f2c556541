// Holds the clients that one role uses to call a run's other roles. Each is an object in this process or a gRPC stub.
#pragma once

#include <cstdint>
#include <functional>
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

// Null = this role does not call it, or the run does not include it. Members are destroyed in reverse order, because
// each client may call the ones declared before it.
struct RoleClients {
  std::shared_ptr<datapool::Client> pool;
  std::shared_ptr<rollout::Client> engine;     // one client for all of the run's engines
  std::function<absl::Status()> engine_fault;  // ServedEngine::fault of this process's engine
  // calls engines::EngineGuard::SetAside for an engine in `engines`; null = the run has no external engines
  std::function<absl::Status(const std::string& engine, const std::string& why)> set_aside;
  // each engine by name, for the run page, and for the trainer's probe if other projects' servers sample
  std::vector<std::pair<std::string, std::shared_ptr<rollout::Client>>> engines;
  std::map<std::string, std::shared_ptr<rollout::Client>> external;  // external models by name (gateway.models)
  std::shared_ptr<scheduler::RemoteGrader> rewards;  // null = the reward stage runs in the scheduler's process
  std::shared_ptr<scheduler::Client> scheduler;
  std::shared_ptr<gateway::Admission> admission;  // the scheduler as the gateway calls it; MakeGateway sets it
  std::shared_ptr<agents::Episodes> episodes;     // the gateway as the agents' runner calls it
  Gateways gateways;                              // the gateways whose episodes the run waits for

  // Chooses one of `engines` round-robin and returns its name and client. If `engines` is empty, returns `engine`.
  std::pair<std::string, std::shared_ptr<rollout::Client>> EngineOfTurn(int64_t turn) const {
    if (engines.empty()) return {"the engine", engine};
    return engines[static_cast<size_t>(turn) % engines.size()];
  }
};

}  // namespace ingot::app
