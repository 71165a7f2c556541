#include <memory>
#include <utility>
#include <vector>

#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/roles/term_servers.h"
#include "app/training/grading.h"
#include "scheduler/grader_service.h"

namespace ingot::app {

absl::Status RunRewards(const RoleContext& context) {
  const std::unique_ptr<datapool::Client> pool = PoolOf(context);
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts servers, ServersOfTerms(context));
  INGOT_ASSIGN_OR_RETURN(const auto stage, MakeStageGrader(context.config, *pool, servers));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewGraderService(*stage));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "rewards", std::move(services)));
  WaitForStop();
  return absl::OkStatus();
}

}  // namespace ingot::app
