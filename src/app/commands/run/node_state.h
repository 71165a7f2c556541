// The roles running on one node of a run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/cluster/status/role_waits.h"
#include "app/cluster/status/run_status.h"
#include "app/cluster/supervisor.h"
#include "base/mutex.h"

namespace ingot::app {

// Returns "scheduler, rollout-0 (restarted 2 times), gateway (NOT RUNNING), agents (NO ANSWER), trainer (waits for
// batch 7)".
std::string DescribeStates(const std::vector<RoleState>& states, const std::vector<RoleStatus>& unresponsive,
                           const std::map<std::string, ReportedWaits>& waits);

// The states of the node's roles, for probes and the registry. Thread safe.
class NodeState {
 public:
  void Set(const std::vector<RoleState>& states);
  std::vector<RoleState> States() const;
  std::vector<RoleStatus> Statuses() const;

 private:
  mutable base::Mutex mu_;
  std::vector<RoleState> states_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
