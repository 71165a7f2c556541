// `ingot serve --learn`: serves a run's model and trains it on the feedback of users who opted in.
#include "app/commands/model/learn.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "app/checks/port_check.h"
#include "app/checks/run_check.h"
#include "app/cluster/role_addresses.h"
#include "app/commands/run/run_command.h"
#include "app/learning/feedback_judge.h"
#include "app/learning/learner.h"
#include "app/learning/learning_check.h"
#include "app/learning/opted_in_pool.h"
#include "app/learning/version_evaluation.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/reward_servers.h"
#include "app/record/run_metrics.h"
#include "app/roles/assembly.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/resume_check.h"
#include "base/log.h"
#include "base/random.h"
#include "datapool/store.h"
#include "gateway/http/http_server.h"
#include "kernels/torch/exact.h"
#include "trainer/pass/tensor_memory.h"

namespace ingot::app {
namespace {

// Constructed in this order and destroyed in reverse order.
struct LearningServer {
  std::unique_ptr<datapool::Client> pool;
  std::unique_ptr<RatedAnswers> answers;
  std::unique_ptr<FeedbackJudge> judge;  // null = without learn.judge
  std::shared_ptr<rollout::ServedEngine> engine;
  std::unique_ptr<weights::Publisher> publisher;
  std::unique_ptr<Learner> learner;
  RoleClients clients;  // the gateway's
  std::unique_ptr<gateway::Gateway> gateway;
  std::unique_ptr<gateway::HttpServer> http;
};

// Each conversation is a session. Only the gateway itself opens episodes, because it marks those of users.
absl::Status StartGateway(const RunConfig& config, const ModelSetup& model, LearningServer& server) {
  gateway::GatewayOptions options = config.gateway;
  options.session_per_conversation = true;
  options.max_open_episodes = std::max(options.max_open_episodes, options.max_active_calls);
  server.clients.pool = MakeOptedInPool(*server.pool, *server.answers);
  server.clients.engine = server.engine;
  INGOT_ASSIGN_OR_RETURN(server.clients.external,
                         ConnectExternalModels(config.gateway, config.cluster.allow_plaintext));
  gateway::GatewayParts parts;
  parts.feedback = server.answers.get();
  if (server.judge != nullptr) parts.feedback = server.judge.get();
  parts.vocab_size = static_cast<int32_t>(model.shape.vocab_size);
  parts.admin_key = base::RandomHex(24);
  INGOT_ASSIGN_OR_RETURN(server.gateway, MakeGateway(options, server.clients, model.text, std::move(parts)));
  INGOT_ASSIGN_OR_RETURN(server.http,
                         gateway::HttpServer::Start(config.http, *server.gateway, OwnHost(config.cluster)));
  return absl::OkStatus();
}

// Without a URL, the judge is a model that this server serves.
void StartJudge(LearningServer& server) {
  if (server.judge == nullptr) return;
  const auto cancelled = [judge = server.judge.get()] { return judge->stopping() || StopFlag(); };
  server.judge->Start(HttpTermParts(server.http->url() + "/v1", "", cancelled).judge);
}

void Stop(LearningServer& server) {
  if (server.judge != nullptr) server.judge->Stop();
  server.http->Stop();
  server.gateway->Shutdown();
  server.gateway->EndSessions();
  server.engine->Shutdown();
}

// Rows of rounds that are decided stay. An open round's row is written again.
absl::StatusOr<std::unique_ptr<base::RunLog>> OpenRoundLog(const RunConfig& config, const RunDir& dir,
                                                           const Rounds& rounds, base::Metrics& metrics) {
  int64_t next = std::ssize(rounds.all());
  if (next > 0 && rounds.all().back().outcome == Outcome::kOpen) --next;
  const base::RunLogOptions options{
      .directory = dir.path(), .resume_step = dir.existed() ? next : -1, .max_labels = config.metrics.max_labels};
  return base::RunLog::Open(options, &metrics, base::Clock::Real());
}

absl::Status RunServer(const RunConfig& config, const RunDir& dir, const ModelSetup& model, Users users,
                       base::Metrics& metrics) {
  const RetryPolicy retry{.stop = &StopFlag()};
  StepLine line(stdout, config.name, config.trainer.total_steps);
  INGOT_ASSIGN_OR_RETURN(Rounds rounds, Rounds::Open(dir.path()));
  LearningServer server;
  datapool::StoreOptions store = config.datapool;
  store.path = dir.pool();
  INGOT_ASSIGN_OR_RETURN(server.pool, datapool::OpenPool(store));
  const size_t number_of_users = users.size();
  INGOT_ASSIGN_OR_RETURN(server.answers, RatedAnswers::Load(*server.pool, std::move(users), rounds.RoundsOfAnswers(),
                                                            config.learn.max_answers));
  if (config.learn.judge.on()) {
    server.judge = std::make_unique<FeedbackJudge>(config.learn.judge, *server.answers, metrics);
  }
  INGOT_ASSIGN_OR_RETURN(server.engine, MakeServedEngine(config, model,
                                                         {.owner = absl::StrCat(config.name, "-learn"),
                                                          .log_path = absl::StrCat(dir.logs(), "/engine-server.log")}));
  server.publisher = std::make_unique<weights::Publisher>(config.weights.Options());
  INGOT_RETURN_IF_ERROR(server.publisher->AddEngine("engine", server.engine));
  const LearnerParts parts{
      .config = config,
      .dir = dir,
      .model = model,
      .pool = *server.pool,
      .publisher = *server.publisher,
      .line = line,
      .retry = retry,
      .evaluate = [&](const std::string& folder,
                      const std::string& name) { return EvaluateVersion(config, dir, folder, name, model.device); },
      .engine_fault = [&] { return server.engine->fault(); }};
  INGOT_ASSIGN_OR_RETURN(server.learner, Learner::Start(parts, rounds, dir.existed()));
  INGOT_RETURN_IF_ERROR(dir.DropReplaced());
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<base::RunLog> log, OpenRoundLog(config, dir, rounds, metrics));
  INGOT_RETURN_IF_ERROR(StartGateway(config, model, server));
  StartJudge(server);
  const auto text = [&] { return server.gateway->MetricsText() + metrics.RenderText(); };
  INGOT_ASSIGN_OR_RETURN(auto endpoints, ServeMetrics(config, dir, "ingot", config.metrics.port, text));
  std::printf("%s: learning from %zu users at %s/v1  run folder %s\n", config.name.c_str(), number_of_users,
              server.http->url().c_str(), dir.path().c_str());
  std::fflush(stdout);
  const absl::Status learned = server.learner->Run(*server.answers, *log);
  endpoints.clear();
  Stop(server);
  return absl::IsCancelled(learned) && StopFlag() ? absl::OkStatus() : learned;
}

absl::Status KeepConfiguration(const LoadedConfig& loaded, const RunDir& dir, const ModelSetup& model) {
  const RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepLoss(config.trainer, dir));
  return KeepTokenizer(dir.path(), config.model.path, model.text);
}

absl::Status LearnOrError(const RunArgs& args) {
  trainer::KeepTensorMemory();
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  kernels::SetDeviceNumerics(config.numerics);
  INGOT_RETURN_IF_ERROR(base::Annotate(CheckLearning(config), args.config));
  INGOT_ASSIGN_OR_RETURN(Users users, Users::Read(config.learn.users_file));
  INGOT_ASSIGN_OR_RETURN(const RunCheck check, CheckRun(config, RequestedBy::kTrain));
  loaded.config->trainer.custom.graph = check.loss_graph;
  const RunConfig evaluation = EvaluationConfig(config, FolderOf(config), "check");
  INGOT_RETURN_IF_ERROR(CheckStart(evaluation, check.model.text, check.model.shape.max_position_embeddings).status());
  INGOT_RETURN_IF_ERROR(CheckPort("http.port", config.http.host, config.http.port));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  base::InitLogging("ingot", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& warning : check.start.warnings) INGOT_LOG(warn, "warning: {}", warning);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(KeepConfiguration(loaded, dir, check.model));
  const std::string command = CommandOf("serve --learn", args);
  INGOT_RETURN_IF_ERROR(KeepCommand(dir, command));
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(check.device, metrics);
  return WithNext(RunServer(config, dir, check.model, std::move(users), metrics), dir, command);
}

}  // namespace

int ServeAndLearn(const RunArgs& args) {
  HandleSignals();
  const absl::Status served = LearnOrError(args);
  return served.ok() ? 0 : Fail(served);
}

}  // namespace ingot::app
