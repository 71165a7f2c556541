#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/roles/assembly.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/resume_point.h"
#include "dataset/tasks.h"
#include "scheduler/grpc_grader.h"
#include "scheduler/scheduler.h"
#include "scheduler/service.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// If the scheduler started together with the run (new or resumed), the trainer publishes the version of the checkpoint
// where the run continues. If only the scheduler restarted, the live versions are still live.
absl::StatusOr<std::optional<scheduler::ResumePoint>> ResumeOf(const RoleContext& context) {
  if (context.resume) return std::nullopt;
  return ResumePointOf(context.dir, true);
}

// Returns the scheduler's interface to the reward stage: the `rewards` role, or a stage in this process.
absl::StatusOr<std::unique_ptr<RewardGrading>> RewardsOf(const RoleContext& context, RoleClients& clients) {
  const RunConfig& config = context.config;
  reward::TermParts terms;
  if (config.cluster.rewards_role) {
    const milliseconds deadline(static_cast<int64_t>(config.rewards.deadline_s * 1e3));
    clients.rewards = scheduler::NewGrpcGrader(context.registry->To("rewards"), deadline);
  } else {
    INGOT_ASSIGN_OR_RETURN(terms, TermPartsOf(context, clients));
  }
  return MakeRewards(config, clients, std::move(terms));
}

absl::StatusOr<std::unique_ptr<scheduler::Scheduler>> Lead(const RoleContext& context,
                                                           const std::vector<v1::Task>& tasks,
                                                           const std::optional<scheduler::ResumePoint>& resume,
                                                           const RoleClients& clients, RewardGrading& rewards) {
  int64_t leadership = 0;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "taking the lead in the run's registry", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(leadership, context.registry->Lead("scheduler"));
    return absl::OkStatus();
  }));
  std::unique_ptr<scheduler::Scheduler> scheduler;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "reading the run's journal", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(scheduler, MakeScheduler(context.config.scheduler, tasks, clients, rewards, resume,
                                                    context.metrics, leadership));
    return absl::OkStatus();
  }));
  return scheduler;
}

}  // namespace

absl::Status RunScheduler(const RoleContext& context) {
  RoleClients clients;
  clients.pool = PoolOf(context);
  INGOT_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, dataset::LoadTasks(context.config.task_files()));
  INGOT_ASSIGN_OR_RETURN(const std::optional<scheduler::ResumePoint> resume, ResumeOf(context));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<RewardGrading> rewards, RewardsOf(context, clients));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<scheduler::Scheduler> scheduler,
                         Lead(context, tasks, resume, clients, *rewards));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewSchedulerService(*scheduler));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "scheduler", std::move(services)));
  base::Executor timers({.name = "timers"});
  base::Timer connecting;  // unused if the stage is in this process
  if (context.config.cluster.rewards_role) {
    connecting = KeepConnecting(timers, {context.registry->To("rewards")});
  }
  SchedulerTicks ticks(*scheduler, timers);
  WaitForStop([&ticks] { return ticks.replaced(); });
  scheduler->Shutdown();
  rewards->Stop();
  if (!ticks.replaced()) return absl::OkStatus();
  return absl::AbortedError(
      "another scheduler has taken over this run; the journal has rejected everything from this one since then");
}

}  // namespace ingot::app
