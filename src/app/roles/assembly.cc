#include "app/roles/assembly.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agents/episodes.h"
#include "app/models/chat_vendor.h"
#include "app/models/model_places.h"
#include "app/models/reward_servers.h"
#include "app/models/term_models.h"
#include "app/roles/agents_substrate.h"
#include "app/run/named_models.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "gateway/admission.h"
#include "kv/file_store.h"
#include "reward/stage.h"
#include "reward/terms/python_score.h"
#include "reward/terms/verdicts.h"
#include "rollout/engine/torch_runner.h"
#include "scheduler/grpc_grader.h"

namespace ingot::app {
namespace {

class StageGrader final : public scheduler::Grader {
 public:
  explicit StageGrader(reward::Stage stage) : stage_(std::move(stage)) {}
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override { return stage_.Grade(request); }

 private:
  reward::Stage stage_;
};

class SchedulerAdmission final : public gateway::Admission {
 public:
  explicit SchedulerAdmission(std::shared_ptr<scheduler::Client> scheduler) : scheduler_(std::move(scheduler)) {}
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override { return scheduler_->Admit(request); }
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) override {
    return scheduler_->ReportEpisodeEnd(request);
  }

 private:
  const std::shared_ptr<scheduler::Client> scheduler_;
};

class GatewayEpisodes final : public agents::Episodes {
 public:
  GatewayEpisodes(gateway::Gateway& gateway, std::string admin_key)
      : gateway_(gateway), admin_key_(std::move(admin_key)) {}
  absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) override {
    v1::EpisodeOpenRequest allowed = Allowed(request);
    allowed.set_runner(kRunner);
    allowed.set_incarnation(incarnation_);
    return gateway_.OpenEpisode(allowed);
  }
  absl::Status Reward(const v1::EpisodeRewardRequest& request) override { return gateway_.RewardEpisode(request); }
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) override {
    return gateway_.ReadMessages(request);
  }
  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) override {
    return gateway_.EndEpisode(request);
  }
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) override {
    v1::NextSnapshotRequest allowed = Allowed(request);
    allowed.set_runner(kRunner);
    return gateway_.NextSnapshot(allowed);
  }
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) override {
    return gateway_.SnapshotTaken(Allowed(request));
  }
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) override {
    return gateway_.SendSnapshotFiles(Allowed(part));
  }

 private:
  static constexpr char kRunner[] = "agents";  // same as with `ingot launch`

  template <typename Request>
  Request Allowed(Request request) const {
    request.set_admin_key(admin_key_);
    return request;
  }

  gateway::Gateway& gateway_;
  const std::string admin_key_;
  const std::string incarnation_ = base::RandomHex(8);
};

// Adds the sandboxes for Python reward functions, and loads each function once.
absl::Status AddFunctions(const RunConfig& config, reward::TermParts& terms) {
  for (const reward::TermOptions& term : config.rewards.terms) {
    if (term.kind != "python") continue;
    if (terms.substrate == nullptr) {
      INGOT_ASSIGN_OR_RETURN(terms.substrate, MakeRewardSubstrate(config));
    }
    const reward::PythonFunction function(term.Of<reward::PythonScoreOptions>(), "python");
    std::error_code error;
    INGOT_RETURN_IF_ERROR(base::Annotate(
        function.Load(*terms.substrate, std::filesystem::current_path(error).string(), reward::PythonTerm::Arguments()),
        absl::StrCat("rewards.terms (", term.Name(), ")")));
  }
  return absl::OkStatus();
}

class GatewayObject final : public gateway::Client {
 public:
  explicit GatewayObject(gateway::Gateway& gateway) : gateway_(gateway) {}
  absl::StatusOr<v1::GatewayStatusResponse> Status() override { return gateway_.Status(); }
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) override {
    return gateway_.EndUncalled(request);
  }

 private:
  gateway::Gateway& gateway_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<rollout::Engine>> MakeEngine(const rollout::EngineOptions& options,
                                                            const ModelSetup& model,
                                                            const std::shared_ptr<const weights::Snapshot>& initial,
                                                            std::shared_ptr<kernels::ComputeMember> compute,
                                                            std::shared_ptr<kv::Store> store) {
  rollout::Engine::Parts parts;
  INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(model.shape, options, model.device, std::move(compute)));
  parts.tokenizer = model.text.tokenizer;
  parts.store = std::move(store);
  if (parts.store == nullptr && kv::IsInMemory(options.kv_store)) {
    parts.store = MakeMemoryStore(options, model.shape);
  } else if (parts.store == nullptr && options.kv_store.on()) {
    INGOT_ASSIGN_OR_RETURN(parts.store, kv::FileStore::Open(options.kv_store));
  }
  return rollout::Engine::Create(options, std::move(parts), initial);
}

std::shared_ptr<kv::MemoryStore> MakeMemoryStore(const rollout::EngineOptions& options,
                                                 const model::ModelConfig& shape) {
  return std::make_shared<kv::MemoryStore>(std::min(options.kv_store.max_bytes, rollout::CacheBytes(shape, options)));
}

absl::StatusOr<reward::TermParts> MakeTermParts(const RunConfig& config, const RoleClients& clients,
                                                const std::function<absl::StatusOr<TextParts>()>& text) {
  reward::TermParts terms = HttpTermParts("", "");
  INGOT_RETURN_IF_ERROR(AddFunctions(config, terms));
  if (!AsksModels(config.rewards)) return terms;
  INGOT_ASSIGN_OR_RETURN(const TextParts parts, text());
  AddTermModels(std::make_shared<ModelPlaces>(config.gateway, clients.engine, clients.external), parts, terms);
  INGOT_RETURN_IF_ERROR(CheckTeachers(config.rewards, terms, parts.tokenizer->fingerprint()));
  return terms;
}

absl::StatusOr<std::unique_ptr<scheduler::Grader>> MakeRewardStage(const RunConfig& config, const RoleClients& clients,
                                                                   reward::TermParts terms) {
  if (!config.has_reward_stage()) return nullptr;
  if (std::ranges::any_of(config.rewards.terms, [](const auto& term) { return term.kind == "judge"; })) {
    INGOT_ASSIGN_OR_RETURN(terms.verdicts,
                           reward::Verdicts::Open(absl::StrCat(config.root, "/", config.name, "/verdicts.jsonl")));
  }
  INGOT_ASSIGN_OR_RETURN(reward::Rule rule, MakeRule(config.rewards, terms));
  const reward::StageOptions options{.total_steps = config.scheduler.total_steps,
                                     .compared = {.credit = config.trainer.advantage_credit,
                                                  .by_terms = config.trainer.by_terms(),
                                                  .by_role = config.trainer.by_role(),
                                                  .lone_roles = !config.trainer.within_group()}};
  return std::make_unique<StageGrader>(reward::Stage(std::move(rule), *clients.pool, options));
}

absl::StatusOr<std::unique_ptr<RewardGrading>> MakeRewards(const RunConfig& config, const RoleClients& clients,
                                                           reward::TermParts terms) {
  if (clients.rewards != nullptr) {
    return std::make_unique<RewardGrading>(config.rewards, clients.rewards,
                                           [stage = clients.rewards] { stage->Stop(); });
  }
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<scheduler::Grader> stage, MakeRewardStage(config, clients, std::move(terms)));
  return std::make_unique<RewardGrading>(config.rewards, std::move(stage));
}

absl::StatusOr<std::unique_ptr<scheduler::Scheduler>> MakeScheduler(const scheduler::SchedulerOptions& options,
                                                                    std::vector<v1::Task> tasks,
                                                                    const RoleClients& clients, RewardGrading& rewards,
                                                                    const std::optional<scheduler::ResumePoint>& resume,
                                                                    base::Metrics& metrics, int64_t leadership) {
  INGOT_ASSIGN_OR_RETURN(const int64_t token, datapool::LeadJournal(*clients.pool, leadership));
  return scheduler::Scheduler::Recover(options, std::move(tasks), *clients.pool, base::Clock::Real(), resume, &metrics,
                                       rewards.grading(), token);
}

SchedulerTicks::SchedulerTicks(scheduler::Scheduler& scheduler, base::Executor& timers)
    : outage_("the scheduler's upkeep of the journal", base::Clock::Real()),
      timer_(timers.PostEvery(std::chrono::seconds(1), [this, &scheduler] {
        const absl::Status status = scheduler.Tick();
        outage_.Note(status);
        if (absl::IsAborted(status)) replaced_ = true;
      })) {}

absl::StatusOr<std::unique_ptr<gateway::Gateway>> MakeGateway(const gateway::GatewayOptions& options,
                                                              RoleClients& clients, const TextParts& text,
                                                              gateway::GatewayParts parts) {
  if (clients.scheduler != nullptr) clients.admission = std::make_shared<SchedulerAdmission>(clients.scheduler);
  parts.engine = clients.engine;
  parts.external = clients.external;
  INGOT_ASSIGN_OR_RETURN(parts.text_models, ConnectChatVendors(options, text));
  parts.pool = clients.pool.get();
  parts.admission = clients.admission.get();
  parts.tokenizer = text.tokenizer;
  parts.format = text.format;
  return gateway::Gateway::Create(options, std::move(parts));
}

std::shared_ptr<gateway::Client> MakeGatewayClient(gateway::Gateway& gateway) {
  return std::make_shared<GatewayObject>(gateway);
}

std::shared_ptr<agents::Episodes> MakeEpisodes(gateway::Gateway& gateway, std::string admin_key) {
  return std::make_shared<GatewayEpisodes>(gateway, std::move(admin_key));
}

absl::StatusOr<std::unique_ptr<agents::Runner>> MakeAgents(const RunConfig& config, const RunDir& dir,
                                                           const RoleClients& clients, base::Metrics& metrics,
                                                           agents::GatewayAccess* gateway_access) {
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, MakeAgentsSubstrate(config, dir));
  ReportProbeResult(substrate->probe_result(), metrics);
  if (config.has_external_engine() && !substrate->probe_result().own_network) {
    INGOT_LOG(
        warn,
        "agents share this machine's network, so they can reach a rollout server on it, whose control routes run any "
        "method: use sandboxes with their own network (sandbox.require: namespaces), or servers with a key "
        "(rollout.external.api_key_file)");
  }
  return agents::Runner::Make(RunnerOptionsOf(config), std::move(substrate), *clients.episodes, base::Clock::Real(),
                              &metrics, gateway_access);
}

}  // namespace ingot::app
