// Creates each role's objects. Used by `ingot train` in one process (embedded.h), by a launched run's roles (roles.h),
// and by commands that need one of the objects, such as `ingot serve` and `ingot regrade`.
//
//   pool <- MakeRewards <- MakeScheduler <- MakeGateway <- MakeAgents        MakeEngine
//
// The clients must outlive the objects created with them. The caller decides when each object starts and stops.
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
#include "engines/api/engine_api.h"
#include "engines/server/exchange_folder.h"
#include "gateway/gateway.h"
#include "kernels/compute_share.h"
#include "kv/memory_store.h"
#include "reward/term_parts.h"
#include "rollout/engine/engine.h"
#include "scheduler/scheduler.h"

namespace ingot::app {

// Creates an engine on the model's device. `initial` is its weights; null = requests wait for the first update.
// `compute` is as in NewTorchRunner. `store` is its KV store; null = that of options.kv_store. Returns errors from the
// model's runner, FileStore::Open, and Engine::Create.
absl::StatusOr<std::unique_ptr<rollout::Engine>> MakeEngine(
    const rollout::EngineOptions& options, const ModelSetup& model,
    const std::shared_ptr<const weights::Snapshot>& initial = nullptr,
    std::shared_ptr<kernels::ComputeMember> compute = nullptr, std::shared_ptr<kv::Store> store = nullptr);

// Returns a KV store in memory. It has at most kv_store.max_bytes, and no more than an engine's KV cache.
std::shared_ptr<kv::MemoryStore> MakeMemoryStore(const rollout::EngineOptions& options,
                                                 const model::ModelConfig& shape);

struct ServedEnginePlace {
  std::string owner;                   // names the run and its role in file names
  std::string log_path;                // of a server that the role starts
  int index = 0;                       // among the run's engines
  std::shared_ptr<kv::Store> store{};  // of Ingot's own engine; null = that of rollout.kv_store
  bool writes = false;                 // to `store`
};

// Creates the engine that samples for the run: Ingot's own, or a client of another project's server (rollout.engine),
// which starts in the background. Returns errors of MakeEngine, of the model's weights, and of ExternalEngine::Create.
absl::StatusOr<std::unique_ptr<rollout::ServedEngine>> MakeServedEngine(
    const RunConfig& config, const ModelSetup& model, const ServedEnginePlace& place,
    std::shared_ptr<kernels::ComputeMember> compute = nullptr);

// Returns what another project's server serves and how it gets weights. A tied head is written as a tensor.
engines::ServedModel ServedModelOf(const model::ModelConfig& shape, int32_t context_length);
engines::ExchangeFolder::WriteModel ServedWriter(const model::ModelConfig& shape);

// Creates the models, servers, and sandboxes that reward terms call. If AsksModels(rewards), this uses the engine and
// external model clients, and calls `text` for the run's text parts. Loads each Python function once, so a function
// that cannot run fails at startup. Returns the errors of `text`, CheckTeachers, MakeSubstrate, and
// PythonFunction::Load.
absl::StatusOr<reward::TermParts> MakeTermParts(const RunConfig& config, const RoleClients& clients,
                                                const std::function<absl::StatusOr<TextParts>()>& text);

// Creates the reward stage, which applies the configured terms to the pool's groups. Returns null unless
// RunConfig::has_reward_stage. Returns INVALID_ARGUMENT, naming the term, if a term cannot be created, and UNAVAILABLE,
// naming the file, if the run's verdict file cannot be opened. REQUIRES: the run's folder exists.
absl::StatusOr<std::unique_ptr<scheduler::Grader>> MakeRewardStage(const RunConfig& config, const RoleClients& clients,
                                                                   reward::TermParts terms);

// Creates the scheduler's interface to the reward stage: the `rewards` role in `clients`, or a stage in this process.
// Returns the errors of MakeRewardStage.
absl::StatusOr<std::unique_ptr<RewardGrading>> MakeRewards(const RunConfig& config, const RoleClients& clients,
                                                           reward::TermParts terms);

// Becomes the leader of the pool's journal and recovers the scheduler. After this, an earlier scheduler that was paused
// or disconnected can no longer write. `leadership` is the leader's fencing token from the registry; 0 = no registry.
// REQUIRES: `rewards` outlives the scheduler. Returns the errors of datapool::LeadJournal and Scheduler::Recover.
absl::StatusOr<std::unique_ptr<scheduler::Scheduler>> MakeScheduler(const scheduler::SchedulerOptions& options,
                                                                    std::vector<v1::Task> tasks,
                                                                    const RoleClients& clients, RewardGrading& rewards,
                                                                    const std::optional<scheduler::ResumePoint>& resume,
                                                                    base::Metrics& metrics, int64_t leadership);

// Calls Scheduler::Tick once a second until destroyed or cancelled. Logs outages of the journal.
class SchedulerTicks {
 public:
  // REQUIRES: both arguments outlive it.
  SchedulerTicks(scheduler::Scheduler& scheduler, base::Executor& timers);
  // Returns whether another scheduler now writes the journal. Thread safe.
  bool replaced() const { return replaced_; }
  void Cancel() { timer_.Cancel(); }

 private:
  std::atomic<bool> replaced_{false};
  base::Outage outage_;  // used only by the timer's thread
  base::Timer timer_;    // declared last because it must stop first
};

// Creates a gateway for the pool, scheduler, engine, and external models in `clients`, and for the vendors in
// `options`. `parts` has the optional parts, such as a script, a key, and peers. Sets clients.admission.
absl::StatusOr<std::unique_ptr<gateway::Gateway>> MakeGateway(const gateway::GatewayOptions& options,
                                                              RoleClients& clients, const TextParts& text,
                                                              gateway::GatewayParts parts);

// Return adapters for this process's gateway, which outlives them: for RoleClients::gateways and for the agents.
std::shared_ptr<gateway::Client> MakeGatewayClient(gateway::Gateway& gateway);
std::shared_ptr<agents::Episodes> MakeEpisodes(gateway::Gateway& gateway, std::string admin_key);

// Creates the runner for the run's recipes. Probes and reports their sandboxes. `gateway_access` is as in Runner::Make. Returns
// the errors of MakeAgentsSubstrate and Runner::Make.
absl::StatusOr<std::unique_ptr<agents::Runner>> MakeAgents(const RunConfig& config, const RunDir& dir,
                                                           const RoleClients& clients, base::Metrics& metrics,
                                                           agents::GatewayAccess* gateway_access = nullptr);

}  // namespace ingot::app
