// Runs a launched run's roles, with one function per role. They use the same objects as embedded.cc, connected through
// gRPC. Each function blocks until the stop signal and returns after the role has stopped.
#pragma once

#include "app/roles/role.h"
#include "base/status.h"

namespace ingot::app {

absl::Status RunDataPool(const RoleContext& context);
absl::Status RunRewards(const RoleContext& context);
// Returns ABORTED if another scheduler has taken over the run.
absl::Status RunScheduler(const RoleContext& context);
absl::Status RunRollout(const RoleContext& context);
absl::Status RunGateway(const RoleContext& context);
// Also returns when the run ends.
absl::Status RunAgents(const RoleContext& context);
// Returns the exit code after training is done; 1 = the run missed its goal. A rank that loses another rank exits the
// process with kGroupLostExit (supervisor.h).
absl::StatusOr<int> RunTrainer(const RoleContext& context);

}  // namespace ingot::app
