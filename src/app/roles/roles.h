// The roles of a launched run, each a function of its context: the objects of embedded.cc, with gRPC between them. Each
// blocks until the signal to stop, and returns once the role has ended.
#pragma once

#include "app/roles/role.h"
#include "base/status.h"

namespace ingot::app {

absl::Status RunDataPool(const RoleContext& context);
absl::Status RunRewards(const RoleContext& context);
// ABORTED: another scheduler has taken over the run.
absl::Status RunScheduler(const RoleContext& context);
absl::Status RunRollout(const RoleContext& context);
absl::Status RunGateway(const RoleContext& context);
// Returns at the end of the run too.
absl::Status RunAgents(const RoleContext& context);
// The exit code: 1 = the run missed its goal. Returns once the training is done. A rank that loses another one ends the
// process with kGroupLostExit (supervisor.h).
absl::StatusOr<int> RunTrainer(const RoleContext& context);

}  // namespace ingot::app
