// The objects of each role, made in one place: for `ingot train` in one process (embedded.h), for the roles of a
// launched run (roles.h), and for commands that need one of them, such as `ingot serve` and `ingot regrade`.
//
//   pool <- MakeRewards <- MakeScheduler <- MakeGateway <- MakeAgents        MakeEngine
//
// The clients outlive what is made with them. The caller decides when each object starts and stops.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/runner.h"
#include "app/cluster/role_clients.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/training/grading.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/status.h"
#include "gateway/gateway.h"
#include "reward/term_parts.h"
#include "rollout/engine.h"
#include "scheduler/scheduler.h"

namespace ingot::app {

// An engine on the model's device. `initial`: its weights; null = requests wait for the first update. Errors of the
// model's runner and of Engine::Create.
absl::StatusOr<std::unique_ptr<rollout::Engine>> MakeEngine(
    const rollout::EngineOptions& options, const ModelSetup& model,
    const std::shared_ptr<const weights::Snapshot>& initial = nullptr);

// The models, servers and sandboxes that reward terms call. If AsksModels(rewards), this uses the clients of engines and
// external models, and calls `text` for the run's text parts. Functions in Python are loaded once, so that one that
// cannot run is an error at the start. Errors of `text`, CheckTeachers, MakeSubstrate and PythonFunction::Load.
absl::StatusOr<reward::TermParts> MakeTermParts(const RunConfig& config, const RoleClients& clients,
                                                const std::function<absl::StatusOr<TextParts>()>& text);

// The reward stage: the terms of the configuration over the groups of the pool. Null without
// RunConfig::has_reward_stage. INVALID_ARGUMENT names a term that cannot be made, UNAVAILABLE the file of the run's
// verdicts. REQUIRES: the run's folder exists.
absl::StatusOr<std::unique_ptr<scheduler::Grader>> MakeRewardStage(const RunConfig& config, const RoleClients& clients,
                                                                   reward::TermParts terms);

// The stage as the scheduler calls it: the role `rewards` of the clients, or one in this process. Errors of
// MakeRewardStage.
absl::StatusOr<std::unique_ptr<RewardGrading>> MakeRewards(const RunConfig& config, const RoleClients& clients,
                                                           reward::TermParts terms);

// Takes the lead of the pool's journal and recovers the scheduler. From here on, an earlier scheduler that was paused
// or cut off cannot write. `leadership`: the registry's number of this lead; 0 = no registry decides it. `rewards`
// outlives the scheduler. Errors of datapool::LeadJournal and Scheduler::Recover.
absl::StatusOr<std::unique_ptr<scheduler::Scheduler>> MakeScheduler(const scheduler::SchedulerOptions& options,
                                                                    std::vector<v1::Task> tasks,
                                                                    const RoleClients& clients, RewardGrading& rewards,
                                                                    const std::optional<scheduler::ResumePoint>& resume,
                                                                    base::Metrics& metrics, int64_t leadership);

// Calls Scheduler::Tick once a second until it is destroyed or cancelled, and logs while the journal cannot be written.
class SchedulerTicks {
 public:
  // Both outlive it.
  SchedulerTicks(scheduler::Scheduler& scheduler, base::Executor& timers);
  // Another scheduler writes the journal now. Thread safe.
  bool replaced() const { return replaced_; }
  void Cancel() { timer_.Cancel(); }

 private:
  std::atomic<bool> replaced_{false};
  base::Outage outage_;  // of the timer's thread
  base::Timer timer_;    // before the above
};

// A gateway over the pool, the scheduler, the engine and the external models of `clients`, and over the vendors of
// `options`. `parts`: what only some gateways have, such as a script, a key and peers. Sets the admission of `clients`.
absl::StatusOr<std::unique_ptr<gateway::Gateway>> MakeGateway(const gateway::GatewayOptions& options,
                                                              RoleClients& clients, const TextParts& text,
                                                              gateway::GatewayParts parts);

// The gateway of this process as its agents' runner calls it. `gateway` outlives its calls.
// The gateway of this process as RoleClients::gateways has it. It outlives the client.
std::shared_ptr<gateway::Client> MakeGatewayClient(gateway::Gateway& gateway);
std::shared_ptr<agents::Episodes> MakeEpisodes(gateway::Gateway& gateway, std::string admin_key);

// The runner of the run's recipes, in their sandboxes, which are probed and reported. `door`: Runner::Make. Errors of
// MakeAgentsSubstrate and Runner::Make.
absl::StatusOr<std::unique_ptr<agents::Runner>> MakeAgents(const RunConfig& config, const RunDir& dir,
                                                           const RoleClients& clients, base::Metrics& metrics,
                                                           agents::Door* door = nullptr);

}  // namespace ingot::app
