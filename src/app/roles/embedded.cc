#include "app/roles/embedded.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "agents/episodes.h"
#include "app/cluster/role_addresses.h"
#include "app/record/run_metrics.h"
#include "app/roles/assembly.h"
#include "app/run/compute_members.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/random.h"
#include "dataset/tasks.h"
#include "engines/engine_guard.h"
#include "gateway/http/http_server.h"

namespace ingot::app {

// Makes the gateway also accept connections on the sandboxes' sockets.
class DirectGatewayAccess final : public agents::GatewayAccess {
 public:
  explicit DirectGatewayAccess(gateway::HttpServer& server) : server_(server) {}
  absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string&) override {
    return server_.AcceptOn(listener.Release());
  }

 private:
  gateway::HttpServer& server_;
};

// Constructed in this order and destroyed in reverse order.
struct EmbeddedRun::Parts {
  std::shared_ptr<kernels::ComputeMember> trainer_compute;  // null = threads are not lent
  RoleClients clients;  // own what they call: the pool, the engine, and the scheduler
  std::shared_ptr<rollout::ServedEngine> engine;
  std::unique_ptr<RewardGrading> rewards;
  std::shared_ptr<const EvalGrades> eval_grades;
  std::shared_ptr<scheduler::Scheduler> scheduler;
  std::unique_ptr<weights::Publisher> publisher;
  std::unique_ptr<gateway::Gateway> gateway;
  std::unique_ptr<gateway::HttpServer> http;
  std::unique_ptr<DirectGatewayAccess> gateway_access;
  std::unique_ptr<agents::Runner> runner;  // null = external agents
  base::Executor timers{{.name = "timers"}};
  std::optional<SchedulerTicks> scheduler_ticks;
  std::vector<std::unique_ptr<MetricsEndpoint>> endpoints = {};
};

EmbeddedRun::EmbeddedRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EmbeddedRun::~EmbeddedRun() { Stop(); }

const RoleClients& EmbeddedRun::clients() const { return parts_->clients; }
weights::Publisher& EmbeddedRun::publisher() { return *parts_->publisher; }
const std::string& EmbeddedRun::url() const { return parts_->http->base_url(); }
std::string EmbeddedRun::metrics_url() const {
  return parts_->endpoints.empty() ? "none" : parts_->endpoints.back()->url();
}

absl::StatusOr<std::unique_ptr<EmbeddedRun>> EmbeddedRun::Start(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model,
                                                                const scheduler::ResumePoint& resume,
                                                                base::Metrics& metrics) {
  auto parts = std::make_unique<Parts>();
  RoleClients& clients = parts->clients;
  datapool::StoreOptions store = config.datapool;
  store.path = dir.pool();
  if (dir.existed()) store.postgres.replace = false;
  INGOT_ASSIGN_OR_RETURN(clients.pool, datapool::OpenPool(store));

  const auto compute = std::make_shared<kernels::ComputeTable>();
  parts->trainer_compute = ComputeMemberOf(config, model.device, compute, "trainer", 0);
  INGOT_ASSIGN_OR_RETURN(parts->engine, MakeServedEngine(config, model,
                                                         {.owner = absl::StrCat(config.name, "-train"),
                                                          .log_path = absl::StrCat(dir.logs(), "/engine-server.log")},
                                                         ComputeMemberOf(config, model.device, compute, "rollout", 0)));
  clients.engine = parts->engine;
  clients.engine_fault = [engine = parts->engine] { return engine->fault(); };
  clients.engines = {{"engine", parts->engine}};
  if (auto* guard = dynamic_cast<engines::EngineGuard*>(parts->engine.get()); guard != nullptr) {
    clients.set_aside = [guard](const std::string&, const std::string& why) { return guard->SetAside(why); };
  }
  INGOT_ASSIGN_OR_RETURN(clients.external, ConnectExternalModels(config.gateway, config.cluster.allow_plaintext));

  INGOT_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, dataset::LoadTasks(config.task_files()));
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts terms, MakeTermParts(config, clients, [&] { return model.text; }));
  INGOT_ASSIGN_OR_RETURN(parts->rewards, MakeRewards(config, clients, terms));
  INGOT_ASSIGN_OR_RETURN(parts->eval_grades, EvalGrades::Make(config, *clients.pool, terms));
  INGOT_ASSIGN_OR_RETURN(parts->scheduler, MakeScheduler(config.scheduler, std::move(tasks), clients, *parts->rewards,
                                                         resume, metrics, /*leadership=*/0));
  clients.scheduler = parts->scheduler;

  parts->publisher = std::make_unique<weights::Publisher>(config.weights.Options());
  INGOT_RETURN_IF_ERROR(parts->publisher->AddEngine("engine", parts->engine));

  gateway::GatewayParts gateway;
  gateway.script = model.script;
  gateway.pins_episodes = config.rollout.episode_version == rollout::EpisodeVersion::kPinned;
  gateway.vocab_size = static_cast<int32_t>(model.shape.vocab_size);
  INGOT_ASSIGN_OR_RETURN(gateway.admin_key, gateway::ReadAdminKey(config.gateway));
  // The agents' runner opens episodes, so the agents themselves do not need the key.
  if (gateway.admin_key.empty() && !config.agents.recipes.empty()) gateway.admin_key = base::RandomHex(24);
  INGOT_ASSIGN_OR_RETURN(parts->gateway, MakeGateway(config.gateway, clients, model.text, gateway));
  INGOT_ASSIGN_OR_RETURN(parts->http,
                         gateway::HttpServer::Start(config.http, *parts->gateway, OwnHost(config.cluster)));

  clients.gateways = {{"gateway", MakeGatewayClient(*parts->gateway)}};
  clients.episodes = MakeEpisodes(*parts->gateway, gateway.admin_key);
  if (!config.agents.recipes.empty()) {
    parts->gateway_access = std::make_unique<DirectGatewayAccess>(*parts->http);
    INGOT_ASSIGN_OR_RETURN(parts->runner, MakeAgents(config, dir, clients, metrics, parts->gateway_access.get()));
  }
  parts->scheduler_ticks.emplace(*parts->scheduler, parts->timers);
  auto run = std::unique_ptr<EmbeddedRun>(new EmbeddedRun(std::move(parts)));
  const auto text = [&gateway = *run->parts_->gateway, &metrics] {
    return gateway.MetricsText() + metrics.RenderText();
  };
  INGOT_ASSIGN_OR_RETURN(run->parts_->endpoints, ServeMetrics(config, dir, "ingot", config.metrics.port, text));
  return run;
}

absl::Status EmbeddedRun::StartAgents() {
  return parts_->runner == nullptr ? absl::OkStatus() : parts_->runner->Start();
}

TrainerParts EmbeddedRun::PartsOfTrainer() {
  std::vector<ParkedEngine> parked;
  if (auto parking = std::dynamic_pointer_cast<rollout::Parking>(parts_->engine)) parked = {{"the engine", parking}};
  return {.clients = parts_->clients,
          .publisher = *parts_->publisher,
          .eval_grades = parts_->eval_grades,
          .on_first_version = [this] { return StartAgents(); },
          .compute = parts_->trainer_compute,
          .parked = std::move(parked)};
}

void EmbeddedRun::Stop() {
  if (parts_ == nullptr) return;
  parts_->endpoints.clear();
  parts_->scheduler_ticks->Cancel();
  if (parts_->runner != nullptr) {
    if (const absl::Status status = parts_->runner->Stop(); !status.ok()) {
      INGOT_LOG(warn, "agents: {}", status.ToString());
    }
  }
  parts_->runner.reset();
  parts_->http.reset();
  parts_->gateway->Shutdown();
  parts_->scheduler->Shutdown();
  parts_->rewards->Stop();
  parts_->engine->Shutdown();
  parts_.reset();
}

}  // namespace ingot::app
