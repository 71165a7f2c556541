#include <memory>
#include <utility>
#include <vector>

#include "app/roles/assembly.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "scheduler/grader_service.h"

namespace ingot::app {

absl::Status RunRewards(const RoleContext& context) {
  RoleClients clients;
  clients.pool = PoolOf(context);
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts terms, TermPartsOf(context, clients));
  INGOT_ASSIGN_OR_RETURN(const auto stage, MakeRewardStage(context.config, clients, terms));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewGraderService(*stage));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "rewards", std::move(services)));
  WaitForStop();
  return absl::OkStatus();
}

}  // namespace ingot::app
