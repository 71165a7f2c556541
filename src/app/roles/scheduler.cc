#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/roles/term_servers.h"
#include "app/run/resume_point.h"
#include "app/run/run_dir.h"
#include "app/training/grading.h"
#include "base/clock.h"
#include "base/outage.h"
#include "datapool/client.h"
#include "dataset/tasks.h"
#include "scheduler/grpc_grader.h"
#include "scheduler/scheduler.h"
#include "scheduler/service.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// The reward stage of the scheduler: in this process, or the role `rewards`.
struct AskedStage {
  std::unique_ptr<scheduler::Grader> grader;  // null = the reward is only the outcome
  std::function<void()> stop = [] {};         // stops waiting for its answers
};

absl::StatusOr<AskedStage> StageOf(const RoleContext& context, datapool::Client& pool) {
  const RunConfig& config = context.config;
  AskedStage stage;
  if (config.cluster.rewards_role) {
    const milliseconds deadline(static_cast<int64_t>(config.rewards.deadline_s * 1e3));
    auto remote = scheduler::NewGrpcGrader(context.registry->To("rewards"), deadline);
    stage.stop = [asked = remote.get()] { asked->Stop(); };
    stage.grader = std::move(remote);
    return stage;
  }
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts servers, ServersOfTerms(context));
  INGOT_ASSIGN_OR_RETURN(stage.grader, MakeStageGrader(config, pool, servers));
  return stage;
}

// Started with the run (fresh or resumed): the trainer publishes the version of the checkpoint at which it continues.
// If only the scheduler restarted, the versions that were live still are.
absl::StatusOr<std::optional<scheduler::ResumePoint>> ResumeOf(const RoleContext& context) {
  if (context.resume) return std::nullopt;
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
  return ResumePointOf(dir, true);
}

// From here on, an earlier scheduler that was paused or cut off cannot write.
absl::StatusOr<std::unique_ptr<scheduler::Scheduler>> Lead(const RoleContext& context,
                                                           const std::vector<v1::Task>& tasks,
                                                           const std::optional<scheduler::ResumePoint>& resume,
                                                           datapool::Client& pool, const scheduler::Grading& grading) {
  int64_t leadership = 0;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "taking the lead in the run's registry", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(leadership, context.registry->Lead("scheduler"));
    return absl::OkStatus();
  }));
  std::unique_ptr<scheduler::Scheduler> scheduler;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "reading the run's journal", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const int64_t token, datapool::LeadJournal(pool, leadership));
    INGOT_ASSIGN_OR_RETURN(
        scheduler, scheduler::Scheduler::Recover(context.config.scheduler, tasks, pool, base::Clock::Real(), resume,
                                                 &context.metrics, grading, token));
    return absl::OkStatus();
  }));
  return scheduler;
}

}  // namespace

absl::Status RunScheduler(const RoleContext& context) {
  const std::unique_ptr<datapool::Client> pool = PoolOf(context);
  INGOT_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, dataset::LoadTasks(context.config.task_files()));
  INGOT_ASSIGN_OR_RETURN(const std::optional<scheduler::ResumePoint> resume, ResumeOf(context));
  INGOT_ASSIGN_OR_RETURN(AskedStage stage, StageOf(context, *pool));
  RewardGrading rewards(context.config.rewards, std::move(stage.grader));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<scheduler::Scheduler> scheduler,
                         Lead(context, tasks, resume, *pool, rewards.grading()));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewSchedulerService(*scheduler));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "scheduler", std::move(services)));
  base::Executor timers({.name = "timers"});
  base::Timer connecting;  // unused if the stage is in this process
  if (context.config.cluster.rewards_role) {
    connecting = KeepConnecting(timers, {context.registry->To("rewards")});
  }
  std::atomic<bool> replaced{false};
  base::Outage outage("the scheduler's upkeep of the journal", base::Clock::Real());
  const base::Timer tick = timers.PostEvery(milliseconds(1000), [&scheduler, &replaced, &outage] {
    const absl::Status status = scheduler->Tick();
    outage.Note(status);
    if (absl::IsAborted(status)) replaced = true;
  });
  WaitForStop([&replaced] { return replaced.load(); });
  scheduler->Shutdown();
  stage.stop();
  rewards.Stop();
  if (!replaced) return absl::OkStatus();
  return absl::AbortedError(
      "another scheduler has taken over this run; the journal accepted nothing from this one since then");
}

}  // namespace ingot::app
