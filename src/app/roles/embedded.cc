#include "app/roles/embedded.h"
#include "app/models/chat_vendor.h"

#include <map>
#include <utility>

#include "agents/runner.h"
#include "app/cluster/role_addresses.h"
#include "app/models/asked_models.h"
#include "app/models/reward_servers.h"
#include "app/roles/agents_substrate.h"
#include "app/roles/seams.h"
#include "app/training/grading.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/outage.h"
#include "base/random.h"
#include "dataset/tasks.h"
#include "gateway/http/http_server.h"
#include "rollout/engine.h"
#include "rollout/torch_runner.h"
#include "scheduler/scheduler.h"

namespace ingot::app {

// The gateway accepts on the sockets of sandboxes as on its own.
class HttpDoor final : public agents::Door {
 public:
  explicit HttpDoor(gateway::HttpServer& server) : server_(server) {}
  absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string&) override {
    return server_.AcceptOn(listener.Release());
  }

 private:
  gateway::HttpServer& server_;
};

// Constructed in this order, destroyed in the reverse order.
struct EmbeddedRun::Parts {
  std::unique_ptr<datapool::Client> pool;
  std::shared_ptr<rollout::Engine> engine;
  std::map<std::string, std::shared_ptr<rollout::Client>> external;  // models of other servers
  std::unique_ptr<RewardGrading> rewards;
  std::shared_ptr<const EvalGrades> eval_grades;
  std::unique_ptr<scheduler::Scheduler> scheduler;
  std::unique_ptr<weights::Publisher> publisher;
  std::unique_ptr<SchedulerAdmission> admission;
  std::unique_ptr<gateway::Gateway> gateway;
  std::unique_ptr<gateway::HttpServer> http;
  std::unique_ptr<GatewayEpisodes> episodes;
  std::unique_ptr<HttpDoor> door;
  std::unique_ptr<agents::Runner> runner;  // null = outside agents
  std::string url;
  base::Metrics* metrics = nullptr;
  std::string device;
  base::Executor timers{{.name = "timers"}};
  base::Outage outage{"the scheduler's upkeep of the journal", base::Clock::Real()};  // of the next one
  base::Timer scheduler_tick;
};

EmbeddedRun::EmbeddedRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EmbeddedRun::~EmbeddedRun() { Stop(); }

const std::string& EmbeddedRun::url() const { return parts_->url; }
std::string EmbeddedRun::MetricsText() const { return parts_->gateway->MetricsText() + parts_->metrics->RenderText(); }

absl::StatusOr<std::unique_ptr<EmbeddedRun>> EmbeddedRun::Start(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model,
                                                                const scheduler::ResumePoint& resume,
                                                                base::Metrics& metrics) {
  auto parts = std::make_unique<Parts>();
  parts->device = model.device;
  datapool::StoreOptions store = config.datapool;
  store.path = dir.pool();
  if (dir.existed()) store.postgres.replace = false;
  INGOT_ASSIGN_OR_RETURN(parts->pool, datapool::OpenPool(store));

  rollout::Engine::Parts engine;
  INGOT_ASSIGN_OR_RETURN(engine.runner, rollout::NewTorchRunner(model.shape, config.rollout, model.device));
  engine.tokenizer = model.text.tokenizer;
  INGOT_ASSIGN_OR_RETURN(parts->engine, rollout::Engine::Create(config.rollout, std::move(engine), nullptr));
  INGOT_ASSIGN_OR_RETURN(parts->external, ConnectExternalModels(config));

  INGOT_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, dataset::LoadTasks(config.task_files()));
  reward::TermParts servers = HttpTermParts("", "");
  AddAskedModels(std::make_shared<ModelPlaces>(config.gateway, parts->engine, parts->external), model.text, servers);
  INGOT_RETURN_IF_ERROR(CheckTeachers(config.rewards, servers, model.text.tokenizer->fingerprint()));
  INGOT_ASSIGN_OR_RETURN(auto stage, MakeStageGrader(config, *parts->pool, servers));
  parts->rewards = std::make_unique<RewardGrading>(config.rewards, std::move(stage));
  INGOT_ASSIGN_OR_RETURN(parts->eval_grades, EvalGrades::Make(config, *parts->pool, servers));
  INGOT_ASSIGN_OR_RETURN(const int64_t token, datapool::LeadJournal(*parts->pool, 0));
  INGOT_ASSIGN_OR_RETURN(parts->scheduler, scheduler::Scheduler::Recover(config.scheduler, std::move(tasks),
                                                                         *parts->pool, base::Clock::Real(), resume,
                                                                         &metrics, parts->rewards->grading(), token));

  parts->publisher = std::make_unique<weights::Publisher>(config.weights.Options());
  INGOT_RETURN_IF_ERROR(parts->publisher->AddEngine("engine", parts->engine));

  parts->admission = std::make_unique<SchedulerAdmission>(*parts->scheduler);
  gateway::GatewayParts gateway;
  gateway.engine = parts->engine;
  gateway.external = parts->external;
  INGOT_ASSIGN_OR_RETURN(gateway.text_models, ConnectChatVendors(config.gateway, model.text));
  gateway.pool = parts->pool.get();
  gateway.admission = parts->admission.get();
  gateway.tokenizer = model.text.tokenizer;
  gateway.vocab_size = static_cast<int32_t>(model.shape.vocab_size);
  gateway.format = model.text.format;
  gateway.script = model.script;
  INGOT_ASSIGN_OR_RETURN(std::string admin_key, gateway::ReadAdminKey(config.gateway));
  // Agents that the run starts do not open episodes: their runner does.
  if (admin_key.empty() && !config.agents.recipes.empty()) admin_key = base::RandomHex(24);
  gateway.admin_key = admin_key;
  INGOT_ASSIGN_OR_RETURN(parts->gateway, gateway::Gateway::Create(config.gateway, gateway));
  INGOT_ASSIGN_OR_RETURN(parts->http,
                         gateway::HttpServer::Start(config.http, *parts->gateway, OwnHost(config.cluster)));
  parts->url = parts->http->base_url();
  parts->metrics = &metrics;

  parts->episodes = std::make_unique<GatewayEpisodes>(*parts->gateway, std::move(admin_key));
  if (!config.agents.recipes.empty()) {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, MakeAgentsSubstrate(config, dir));
    ReportProbeResult(substrate->probe_result(), metrics);
    parts->door = std::make_unique<HttpDoor>(*parts->http);
    INGOT_ASSIGN_OR_RETURN(parts->runner,
                           agents::Runner::Make(RunnerOptionsOf(config), std::move(substrate), *parts->episodes,
                                                base::Clock::Real(), &metrics, parts->door.get()));
  }
  parts->scheduler_tick = parts->timers.PostEvery(
      std::chrono::seconds(1),
      [ticked = parts->scheduler.get(), &outage = parts->outage] { outage.Note(ticked->Tick()); });
  return std::unique_ptr<EmbeddedRun>(new EmbeddedRun(std::move(parts)));
}

absl::Status EmbeddedRun::StartAgents() {
  return parts_->runner == nullptr ? absl::OkStatus() : parts_->runner->Start();
}

TrainingSeams EmbeddedRun::Seams() {
  TrainingSeams seams;
  seams.device = parts_->device;
  seams.scheduler = parts_->scheduler.get();
  seams.pool = parts_->pool.get();
  seams.engine = parts_->engine.get();
  seams.publisher = parts_->publisher.get();
  seams.eval_grades = parts_->eval_grades;
  seams.on_first_version = [this] { return StartAgents(); };
  return seams;
}

RunPage::Roles EmbeddedRun::PageRoles(const ModelSetup& model) const {
  RunPage::Roles roles;
  roles.pool = parts_->pool.get();
  roles.scheduler = parts_->scheduler.get();
  roles.engines = {{"engine", parts_->engine.get()}};
  roles.tokenizer = model.text.tokenizer;
  return roles;
}

void EmbeddedRun::Stop() {
  if (parts_ == nullptr) return;
  parts_->scheduler_tick.Cancel();
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
