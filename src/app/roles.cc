// Runs one role of a run as this process: the objects of embedded.cc, with gRPC between them.
#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "agents/grpc_episodes.h"
#include "agents/runner.h"
#include "app/agents_substrate.h"
#include "app/asked_models.h"
#include "app/chat_vendor.h"
#include "app/commands.h"
#include "app/device.h"
#include "app/full_disk.h"
#include "app/gateway_peers.h"
#include "app/grading.h"
#include "app/grpc_server.h"
#include "app/model_setup.h"
#include "app/persist.h"
#include "app/process.h"
#include "app/reward_servers.h"
#include "app/role_addresses.h"
#include "app/role_waits.h"
#include "app/run_dir.h"
#include "app/run_metrics.h"
#include "app/run_registry.h"
#include "app/run_roles.h"
#include "app/run_secrets.h"
#include "app/seams.h"
#include "app/supervised.h"
#include "app/supervisor.h"
#include "app/threads.h"
#include "app/training.h"
#include "app/weight_group_service.h"
#include "app/weight_ways.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/waits.h"
#include "datapool/grpc_client.h"
#include "datapool/service.h"
#include "dataset/tasks.h"
#include "gateway/http_server.h"
#include "gateway/service.h"
#include "rollout/engine.h"
#include "rollout/grpc_client.h"
#include "rollout/service.h"
#include "rollout/torch_runner.h"
#include "scheduler/grader_service.h"
#include "scheduler/grpc_client.h"
#include "scheduler/grpc_grader.h"
#include "scheduler/scheduler.h"
#include "scheduler/service.h"
#include "trainer/parallel/ranks.h"
#include "trainer/tensor_memory.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// Long enough for a crashed role to restart: callers wait and repeat, and the run does not fail.
constexpr milliseconds kRoleDeadline{30000};
// Shorter, because the trainer repeats its requests for as long as the run goes on. If all roles are stopped at once,
// it has to notice and save its weights before its supervisor's grace is over.
constexpr milliseconds kTrainerDeadline{10000};

// Metrics of a role's own, from their making to their end. Thread safe.
class MoreMetrics {
 public:
  void Set(MetricsEndpoint::Text text) {
    base::MutexLock lock(mu_);
    text_ = std::move(text);
  }
  std::string Text() {
    base::MutexLock lock(mu_);
    return text_ ? text_() : "";
  }

 private:
  base::Mutex mu_;
  MetricsEndpoint::Text text_ ABSL_GUARDED_BY(mu_);
};

struct RoleContext {
  const LoadedConfig& loaded;
  const RunConfig& config;
  bool resume;
  int index;  // of the engine, or rank of the trainer
  base::Metrics& metrics;
  DeviceChoice device;    // of the roles that compute
  std::string admin_key;  // of the supervisor, to open episodes; empty = anybody may
  RpcAccess access;       // to the other roles, and theirs to this one
  RunRegistry* registry;  // null = this role meets no other one
  MoreMetrics& more_metrics;
};

// A role that starts, or goes on, without the disk, the registry or a role that it needs waits for it.
Patience RolePatience() { return {.stop = &StopFlag()}; }

absl::StatusOr<std::vector<std::unique_ptr<MetricsEndpoint>>> ServeRoleMetrics(const RunConfig& config,
                                                                               const std::string& role, int index,
                                                                               const MetricsEndpoint::Text& text,
                                                                               const RoleWaits& waits) {
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  const std::string name = RoleName(role, index);
  // Rank 0 of the trainer has its metrics: the other ranks' socket files show that they live.
  const bool follows = role == "trainer" && index > 0;
  const int port = follows ? 0 : MetricsPort(config, role, index);
  return ServeMetrics(config, dir, name, port, text, [&waits] { return PrintWaits(waits.Told()); });
}

// Returns at the signal to stop, or once `over` is true.
void WaitForStop(const std::function<bool()>& over = [] { return false; }) {
  while (!StopFlag() && !over()) std::this_thread::sleep_for(milliseconds(50));
}

// Serves a role's services, and registers the place where it is found. `http`: RolePlace::http.
absl::StatusOr<std::unique_ptr<GrpcServer>> ServeRole(const RoleContext& context, const std::string& role,
                                                      std::vector<std::unique_ptr<grpc::Service>> services,
                                                      const std::string& http = "") {
  const ClusterOptions& cluster = context.config.cluster;
  INGOT_ASSIGN_OR_RETURN(
      std::unique_ptr<GrpcServer> server,
      GrpcServer::Start(AtHost(cluster, RolePort(cluster, role, context.index)), std::move(services), context.access));
  const std::string name = RoleName(role, context.index), address = AtHost(cluster, server->port());
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "registering in the run's registry",
                                [&] { return context.registry->Register(name, address, http); }));
  INGOT_LOG(info, "{} listens on {}", name, address);
  return server;
}

// A channel connects only while a call waits for it. Callers that are refused and pause before they ask again do not
// wait: they would find a restarted role many seconds late. This timer waits in their place.
base::Timer KeepConnecting(base::Executor& executor, std::vector<v1::RoleChannel> channels) {
  return executor.PostEvery(milliseconds(100), [channels = std::move(channels)] {
    for (const v1::RoleChannel& channel : channels) {
      channel.Now()->WaitForConnected(std::chrono::system_clock::now() + milliseconds(200));
    }
  });
}

// In a new run, the first process of the pool alone may delete the pool of an earlier one: the others open it later.
absl::Status AwaitFirstPool(RunRegistry& registry) {
  const base::Wait wait("datapool, which opens the pool first");
  while (!StopFlag()) {
    const std::vector<RolePlace> places = registry.LastPlaces();
    if (std::any_of(places.begin(), places.end(), [](const auto& place) { return place.name == "datapool"; })) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return absl::OkStatus();
}

absl::Status RunDataPool(const RoleContext& context) {
  datapool::StoreOptions store = context.config.datapool;
  if (context.resume || context.index > 0) store.postgres.replace = false;
  if (!context.resume && context.index > 0) INGOT_RETURN_IF_ERROR(AwaitFirstPool(*context.registry));
  std::unique_ptr<datapool::Client> pool;
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "opening the pool", [&]() -> absl::Status {
    auto opened = datapool::OpenPool(store);
    if (!opened.ok()) return NameFullDisk(opened.status(), store.path, kStartBytes);
    pool = *std::move(opened);
    return absl::OkStatus();
  }));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(datapool::NewDataPoolService(*pool));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "datapool", std::move(services)));
  WaitForStop();
  return absl::OkStatus();
}

// The servers that reward terms ask. The tokenizer is read for them alone.
absl::StatusOr<reward::TermParts> ServersOfTerms(const RoleContext& context) {
  reward::TermParts servers = HttpTermParts("", "");
  const RunConfig& config = context.config;
  if (!AsksModels(config.rewards)) return servers;
  INGOT_ASSIGN_OR_RETURN(auto external, ConnectExternalModels(config));
  INGOT_ASSIGN_OR_RETURN(TextParts text, config.model.path.empty()
                                             ? MakeTextParts(config.model.chat_format)
                                             : LoadTextParts(config.model.path, config.model.chat_format));
  const std::string fingerprint = text.tokenizer->fingerprint();
  AddAskedModels(
      std::make_shared<ModelPlaces>(config.gateway, ConnectEngines(*context.registry, config.cluster.rollout_engines),
                                    std::move(external)),
      std::move(text), servers);
  INGOT_RETURN_IF_ERROR(CheckTeachers(config.rewards, servers, fingerprint));
  return servers;
}

absl::Status RunRewards(const RoleContext& context) {
  const std::unique_ptr<datapool::Client> pool =
      datapool::NewGrpcClient(ConnectPool(*context.registry, context.config.cluster.datapools), kRoleDeadline);
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts servers, ServersOfTerms(context));
  INGOT_ASSIGN_OR_RETURN(const auto stage, MakeStageGrader(context.config, *pool, servers));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewGraderService(*stage));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "rewards", std::move(services)));
  WaitForStop();
  return absl::OkStatus();
}

// The stage as the scheduler asks it: in this process, or the role `rewards`.
struct AskedStage {
  std::unique_ptr<scheduler::Grader> grader;  // null = the reward is the outcome alone
  std::function<void()> stop = [] {};         // its answers are waited for no more
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

absl::Status RunScheduler(const RoleContext& context) {
  const std::unique_ptr<datapool::Client> pool =
      datapool::NewGrpcClient(ConnectPool(*context.registry, context.config.cluster.datapools), kRoleDeadline);
  INGOT_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, dataset::LoadTasks(context.config.tasks));
  // Started with the run (fresh or resumed): the trainer publishes the version of the checkpoint at which it continues.
  // Restarted alone: the versions that were live still are.
  std::optional<scheduler::ResumePoint> resume;
  if (!context.resume) {
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
    INGOT_ASSIGN_OR_RETURN(resume, ResumePointOf(dir, true));
  }
  INGOT_ASSIGN_OR_RETURN(AskedStage stage, StageOf(context, *pool));
  RewardGrading rewards(context.config.rewards, std::move(stage.grader));
  // An earlier scheduler that was paused, or cut off, writes nothing from here on.
  int64_t leadership = 0;
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "taking the lead in the run's registry", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(leadership, context.registry->Lead("scheduler"));
    return absl::OkStatus();
  }));
  std::unique_ptr<scheduler::Scheduler> scheduler;
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "reading the run's journal", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const int64_t token, datapool::LeadJournal(*pool, leadership));
    INGOT_ASSIGN_OR_RETURN(
        scheduler, scheduler::Scheduler::Recover(context.config.scheduler, tasks, *pool, base::Clock::Real(), resume,
                                                 &context.metrics, rewards.grading(), token));
    return absl::OkStatus();
  }));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(scheduler::NewSchedulerService(*scheduler));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "scheduler", std::move(services)));
  base::Executor timers({.name = "timers"});
  base::Timer connecting;  // of no task where the stage is in this process
  if (context.config.cluster.rewards_role) {
    connecting = KeepConnecting(timers, {context.registry->To("rewards")});
  }
  std::atomic<bool> replaced{false};
  const base::Timer tick = timers.PostEvery(milliseconds(1000), [&scheduler, &replaced] {
    const absl::Status status = scheduler->Tick();
    if (!status.ok()) INGOT_LOG(warn, "{}", status.ToString());
    if (absl::IsAborted(status)) replaced = true;
  });
  WaitForStop([&replaced] { return replaced.load(); });
  scheduler->Shutdown();
  stage.stop();
  rewards.Stop();
  if (!replaced) return absl::OkStatus();
  return absl::AbortedError("another scheduler leads this run by now; the journal took nothing from this one since");
}

// The exchanges between devices; null: there is no device, or its library was built without NCCL.
decltype(&ingot_cuda_nccl_group) DeviceExchanges(const RoleContext& context) {
  if (context.device.library == nullptr) return nullptr;
  return reinterpret_cast<decltype(&ingot_cuda_nccl_group)>(::dlsym(context.device.library, trainer::kNcclGroupSymbol));
}

// This process in groups for weights.
WeightGroupSeat SeatOf(const RoleContext& context) {
  WeightGroupSeat seat;
  seat.own_host = OwnHost(context.config.cluster);
  seat.nccl = DeviceExchanges(context);
  if (seat.nccl != nullptr) seat.device = context.device.torch_name;
  return seat;
}

absl::Status RunRollout(const RoleContext& context) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(context.config.model, context.device.torch_name));
  rollout::Engine::Parts parts;
  INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(model.shape, context.config.rollout, model.device));
  parts.tokenizer = model.text.tokenizer;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<rollout::Engine> engine,
                         rollout::Engine::Create(context.config.rollout, std::move(parts), nullptr));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(rollout::NewRolloutService(*engine));
  const std::string name = RoleName("rollout", context.index);
  INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(context.config.weights.ways, name));
  if (transport == WeightTransport::kBroadcast) {
    services.push_back(NewWeightGroupService(*engine, engine->codec(), SeatOf(context)));
  }
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "rollout", std::move(services)));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<weights::Follower> follower,
                         FollowWeights(context.config, dir, name, *engine, engine->codec()));
  WaitForStop();
  // Its calls run to their end, and new ones go to other engines.
  if (!engine->Drain(base::FromSeconds(context.config.cluster.drain_s))) {
    INGOT_LOG(warn, "calls still run after {} s (cluster.drain_s): they are asked again elsewhere",
              context.config.cluster.drain_s);
  }
  engine->Shutdown();
  return absl::OkStatus();
}

// With port 0, a restarted gateway listens at the port that the last one had, if it can: agents and their clients know
// that address. RUN/gateway_port holds the port, RUN/gateway-1_port that of the second gateway.
absl::StatusOr<std::unique_ptr<gateway::HttpServer>> StartHttp(const RoleContext& context, gateway::Gateway& gateway) {
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
  const std::string port_file = RoleName("gateway", context.index) + "_port";
  const auto start = [&](int port) {
    http::Options options = context.config.http;
    options.port = port;
    return gateway::HttpServer::Start(options, gateway);
  };
  const int configured = context.config.http.port;
  int before = 0;
  if (configured == 0) std::ifstream(absl::StrCat(dir.path(), "/", port_file)) >> before;
  auto http = start(before > 0 && before < 65536 ? before : configured);
  if (!http.ok() && before != 0) http = start(configured);  // another process has it by now
  INGOT_RETURN_IF_ERROR(http.status());
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), absl::StrCat("writing ", dir.path(), "/", port_file), [&] {
    return NameFullDisk(dir.WriteFile(port_file, absl::StrCat((*http)->port(), "\n")), dir.path(), 4096);
  }));
  return http;
}

// The agents of a gateway that died go on with their open episodes. Episodes that it admitted and did not store are tried
// again.
absl::Status GoOnFor(const std::string& role, gateway::Gateway& gateway, scheduler::Client& scheduler) {
  INGOT_RETURN_IF_ERROR(gateway.Recover());
  v1::ReconcileRequest request;
  request.set_gateway(role);
  return base::Annotate(scheduler.Reconcile(request).status(), "reconciling open episodes with the scheduler");
}

// HOST:PORT at which other processes of the run reach a gateway's HTTP.
std::string HttpPlace(const RoleContext& context, const gateway::HttpServer& http) {
  const std::string& host = context.config.http.host;
  const bool every = host == "0.0.0.0" || host == "::";
  return absl::StrCat(every ? OwnHost(context.config.cluster) : host, ":", http.port());
}

absl::Status RunGateway(const RoleContext& context) {
  const RunConfig& config = context.config;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model));
  const std::unique_ptr<datapool::Client> pool =
      datapool::NewGrpcClient(ConnectPool(*context.registry, context.config.cluster.datapools), kRoleDeadline);
  const std::unique_ptr<scheduler::Client> scheduler =
      scheduler::NewGrpcClient(context.registry->To("scheduler"), kRoleDeadline);
  SchedulerAdmission admission(*scheduler);
  gateway::GatewayParts parts;
  parts.engine = ConnectEngines(*context.registry, config.cluster.rollout_engines);
  INGOT_ASSIGN_OR_RETURN(parts.external, ConnectExternalModels(config));
  INGOT_ASSIGN_OR_RETURN(parts.text_models, ConnectChatVendors(config.gateway, model.text));
  parts.pool = pool.get();
  parts.admission = &admission;
  parts.tokenizer = model.text.tokenizer;
  parts.format = model.text.format;
  parts.admin_key = context.admin_key;
  GatewayPeers peers(*context.registry, config.cluster.gateways, context.index);
  parts.name = peers.name();
  parts.peers = &peers.peers();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::Gateway> gateway,
                         gateway::Gateway::Create(config.gateway, parts));
  const absl::Cleanup without = [&context] { context.more_metrics.Set(nullptr); };
  context.more_metrics.Set([&gateway] { return gateway->MetricsText(); });
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "taking the open episodes over",
                                [&] { return GoOnFor(RoleName("gateway", context.index), *gateway, *scheduler); }));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::HttpServer> http, StartHttp(context, *gateway));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(gateway::NewGatewayService(*gateway));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<GrpcServer> server,
                         ServeRole(context, "gateway", std::move(services), HttpPlace(context, *http)));
  const std::string url = config.gateway.public_url.empty() ? http->url() : config.gateway.public_url;
  INGOT_LOG(info, "agents reach the gateway at {}, listening at {}", url, http->url());
  if (config.agents.recipes.empty()) std::printf("%s\n", DescribeEntrance(url).c_str());
  base::Executor timers({.name = "timers"});
  const base::Timer watch = timers.PostEvery(milliseconds(1000), [&] {
    for (const std::string& gone : peers.Gone()) {
      const absl::Status taken = GoOnFor(gone, *gateway, *scheduler);
      if (taken.ok()) peers.Settle(gone);
      INGOT_LOG(warn, "{} is gone, and its open episodes {}", gone, taken.ok() ? "go on" : "wait: " + taken.ToString());
    }
  });
  WaitForStop();
  http->Stop();
  server.reset();
  gateway->Shutdown();
  return absl::OkStatus();
}

absl::Status RunAgents(const RoleContext& context) {
  agents::GrpcEpisodesOptions options;
  INGOT_ASSIGN_OR_RETURN(options.admin_key, gateway::ReadAdminKey(context.config.gateway));
  if (options.admin_key.empty()) options.admin_key = context.admin_key;
  const std::vector<v1::RoleChannel> gateways = ConnectGateways(*context.registry, context.config.cluster.gateways);
  base::Executor timers({.name = "timers"});
  const base::Timer connecting = KeepConnecting(timers, gateways);
  const std::unique_ptr<agents::Episodes> episodes = agents::MakeGrpcEpisodes(gateways, options);
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
  std::unique_ptr<sandbox::Substrate> substrate;
  INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "preparing the agents' rooms", [&]() -> absl::Status {
    auto made = MakeAgentsSubstrate(context.config, dir);
    if (!made.ok()) return NameFullDisk(made.status(), dir.path(), kStartBytes);
    substrate = *std::move(made);
    return absl::OkStatus();
  }));
  ReportGrant(substrate->grant(), context.metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<agents::Runner> runner,
                         agents::Runner::Make(context.config.agents, std::move(substrate), *episodes,
                                              base::Clock::Real(), &context.metrics));
  INGOT_RETURN_IF_ERROR(runner->Start());
  while (!StopFlag() && !runner->WaitDone(milliseconds(200))) {
  }
  return runner->Stop();
}

// The engines that get the trainer's weights.
class TrainedEngines {
 public:
  // REQUIRES: the arguments outlive it.
  TrainedEngines(const RoleContext& context, const RunDir& dir, base::Executor& timers)
      : registry_(*context.registry),
        timers_(timers),
        publisher_(PublishingOf(context.config)),
        ways_(context.config, dir, publisher_, BroadcastEndsOf(context)) {}

  absl::Status Add(const std::string& name) {
    const v1::RoleChannel channel = registry_.To(name);
    base::MutexLock lock(mu_);
    INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::Sink> sink, ways_.SinkTo(name, channel));
    INGOT_RETURN_IF_ERROR(publisher_.AddEngine(name, std::move(sink)));
    connecting_.push_back(KeepConnecting(timers_, {channel}));
    return absl::OkStatus();
  }
  weights::Publisher& publisher() { return publisher_; }
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> RankWriter() {
    base::MutexLock lock(mu_);
    return ways_.RankWriter();
  }

 private:
  static weights::PublisherOptions PublishingOf(const RunConfig& config) {
    weights::PublisherOptions options = config.weights.Options();
    options.codec.threads = std::max(config.trainer.threads, 1);  // the trainer's own have nothing to do meanwhile
    return options;
  }
  static BroadcastEnds BroadcastEndsOf(const RoleContext& context) {
    const milliseconds deadline = context.config.weights.Options().deadline;
    return {NewWeightGroupRoots(SeatOf(context), deadline),
            [deadline](v1::RoleChannel channel) { return NewWeightGroupMember(std::move(channel), deadline); }};
  }

  RunRegistry& registry_;
  base::Executor& timers_;
  weights::Publisher publisher_;
  base::Mutex mu_;
  WeightWays ways_ ABSL_GUARDED_BY(mu_);
  std::vector<base::Timer> connecting_ ABSL_GUARDED_BY(mu_);
};

// Runs a run without tasks, which has no other roles.
absl::Status RunSupervised(const RoleContext& context, const RunDir& dir, trainer::Ranks* ranks) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(context.config.model, context.device.torch_name));
  return TrainSupervised(context.loaded, dir, model, ranks, context.resume, context.metrics, StopFlag());
}

absl::StatusOr<int> RunTrainerRole(const RoleContext& context, trainer::Ranks* ranks) {
  const RunConfig& config = context.config;
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  if (config.tasks.empty()) {
    INGOT_RETURN_IF_ERROR(RunSupervised(context, dir, ranks));
    return 0;
  }
  const std::unique_ptr<datapool::Client> pool =
      datapool::NewGrpcClient(ConnectPool(*context.registry, context.config.cluster.datapools), kRoleDeadline);
  const std::unique_ptr<scheduler::Client> scheduler =
      scheduler::NewGrpcClient(context.registry->To("scheduler"), kTrainerDeadline);
  const std::shared_ptr<rollout::Client> engine = ConnectEngines(*context.registry, config.cluster.rollout_engines);
  base::Executor timers({.name = "timers", .threads = 2});  // connecting blocks one of them
  // Shared with the registry's observer, which outlives this function's other objects.
  const auto engines = std::make_shared<TrainedEngines>(context, dir, timers);
  for (int i = 0; i < config.cluster.rollout_engines; ++i) INGOT_RETURN_IF_ERROR(engines->Add(RoleName("rollout", i)));
  context.registry->OnRole("rollout", [weak = std::weak_ptr(engines), &config](const std::string& name) {
    const auto joined = weak.lock();
    if (EngineNumber(name).value_or(0) < config.cluster.rollout_engines || joined == nullptr) return;
    if (const absl::Status added = joined->Add(name); !added.ok()) {
      INGOT_LOG(error, "{} gets no weights: {}", name, added.ToString());
    }
  });
  weights::Publisher& publisher = engines->publisher();
  // A restarted engine is empty, and the next step may need it to sample: leases are renewed between steps too.
  const base::Timer leases = timers.PostEvery(milliseconds(1000), [&publisher] { publisher.CheckLeases(); });
  TrainingSeams seams;
  seams.scheduler = scheduler.get();
  seams.pool = pool.get();
  seams.engine = engine.get();
  seams.publisher = &publisher;
  seams.device = context.device.torch_name;
  seams.ranks = ranks;
  INGOT_ASSIGN_OR_RETURN(seams.writer, engines->RankWriter());
  if (seams.writer != nullptr) {
    INGOT_ASSIGN_OR_RETURN(seams.store, RankStoreOf(config, dir));
  }
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts servers, ServersOfTerms(context));
  INGOT_ASSIGN_OR_RETURN(seams.eval_grades, EvalGrades::Make(context.config, *pool, servers));
  INGOT_ASSIGN_OR_RETURN(const TrainingResult result,
                         RunTraining(context.loaded, dir, seams, context.resume, context.metrics, StopFlag()));
  return result.goal_met ? 0 : 1;
}

// Ends the process without an orderly shutdown: all that must last is on disk, and torch's threads may wait forever for
// the other ranks.
[[noreturn]] void EndForLostRank(const absl::Status& lost) {
  INGOT_LOG(error, "{}; all ranks start again from the last checkpoint", std::string(lost.message()));
  _exit(kGroupLostExit);
}

absl::Status ExchangeOnDevices(const RoleContext& context, trainer::RankOptions& options) {
  if (context.config.cluster.trainer_ranks > context.device.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.trainer_ranks is ", context.config.cluster.trainer_ranks, ", and this machine has ",
                     context.device.devices, " devices, of which each rank takes one: use fewer ranks, or device=cpu"));
  }
  options.nccl = DeviceExchanges(context);
  if (options.nccl == nullptr) {
    return absl::UnavailableError("the device library was built without NCCL: build it with `make cuda`");
  }
  options.device = context.device.torch_name;
  return absl::OkStatus();
}

absl::StatusOr<int> RunRank(const RoleContext& context) {
  const RunConfig& config = context.config;
  trainer::RankOptions options;
  if (context.device.library != nullptr) INGOT_RETURN_IF_ERROR(ExchangeOnDevices(context, options));
  options.rank = context.index;
  options.size = config.cluster.trainer_ranks;
  options.own_host = OwnHost(config.cluster);
  options.host = config.cluster.trainer_host.empty() ? options.own_host : config.cluster.trainer_host;
  options.port = config.cluster.trainer_port;
  options.secret = SecretOfRanks(context.access.token);
  options.deadline = std::chrono::seconds(config.cluster.rank_deadline_s);
  options.on_lost = EndForLostRank;  // whatever this rank computes meanwhile
  std::unique_ptr<trainer::Ranks> ranks;
  const auto run = [&]() -> absl::StatusOr<int> {
    INGOT_ASSIGN_OR_RETURN(ranks, trainer::Ranks::Join(options));
    if (ranks->leads()) return RunTrainerRole(context, ranks.get());
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
    std::optional<weights::VersionStore> store;
    if (!config.tasks.empty() && RanksStoreVersions(config)) {
      INGOT_ASSIGN_OR_RETURN(store, RankStoreOf(config, dir));
    }
    INGOT_RETURN_IF_ERROR(FollowTraining(config, dir, context.device.torch_name, *ranks, std::move(store)));
    return 0;
  };
  absl::StatusOr<int> code = run();
  if (trainer::IsRankLost(code.status())) EndForLostRank(code.status());
  return code;
}

absl::StatusOr<int> RunTrainer(const RoleContext& context) {
  const RunConfig& config = context.config;
  if (config.tasks.empty()) {  // checked by every rank before it waits for the others
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
    INGOT_ASSIGN_OR_RETURN(const bool done, SupervisedIsDone(dir));
    if (done) return 0;
  }
  return config.cluster.trainer_ranks > 1 ? RunRank(context) : RunTrainerRole(context, nullptr);
}

absl::Status NoToken(const std::string& role) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the role ", role,
      " needs the run's token, which every rpc between roles carries: name a file with it in "
      "cluster.token_file (`openssl rand -hex 32 > FILE; chmod 600 FILE`, the same on every machine), or pass it as "
      "--token-fd N. `ingot launch` does so for the roles that it starts"));
}

absl::StatusOr<int> RunRoleOrError(const std::string& role, const RunArgs& args, int index) {
  // The descriptor is read before anything else, and before there are threads.
  RunSecrets secrets;
  if (args.token_fd >= 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, ReadRunSecrets(args.token_fd));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOfRole(config, role)));
  if (args.token_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, FindRunSecrets(config));
  }
  if (secrets.token.empty() && !config.tasks.empty()) return NoToken(role);
  INGOT_ASSIGN_OR_RETURN(RpcAccess access, AccessOf(config.cluster, std::move(secrets.token)));
  if (role != "trainer") INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (role == "rewards") INGOT_RETURN_IF_ERROR(RequireRewardsRole(config));
  if (role == "trainer") trainer::KeepTensorMemory();
  DeviceChoice device;
  const bool computes = role == "trainer" || role == "rollout";
  if (computes) {
    // Each rank of the trainer has a device to itself; engines take the remaining ones, then start over.
    const int place = role == "trainer" ? index : config.cluster.trainer_ranks + index;
    INGOT_ASSIGN_OR_RETURN(device, OpenDevice(config.device, place));
  }
  base::InitLogging(role, config.log_level, "");
  base::Metrics metrics(config.metrics.max_labels);
  if (computes) ReportDevice(device, metrics);
  RoleWaits waits;
  waits.Start();
  MoreMetrics more_metrics;
  const auto text = [&metrics, &more_metrics] { return more_metrics.Text() + metrics.RenderText(); };
  INGOT_ASSIGN_OR_RETURN(const auto endpoints, ServeRoleMetrics(config, role, index, text, waits));
  std::unique_ptr<RunRegistry> registry;
  const absl::Cleanup forget = [&waits] { waits.Forget(); };
  if (!config.tasks.empty() && !(role == "trainer" && index > 0)) {
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
    INGOT_RETURN_IF_ERROR(Persist(RolePatience(), "reaching the run's registry", [&]() -> absl::Status {
      INGOT_ASSIGN_OR_RETURN(auto opened, RunRegistry::Open(config, dir.path(), access));
      INGOT_RETURN_IF_ERROR(opened->Follow());
      registry = std::move(opened);
      return absl::OkStatus();
    }));
    waits.Follow([&registry] { return registry->LongCalls(RoleWaits::kCallPatience); },
                 [&registry](const std::string& told) { registry->TellWaits(told); });
  }
  const RoleContext context{
      loaded,         config,      args.resume, index, metrics, device, std::move(secrets.admin_key), std::move(access),
      registry.get(), more_metrics};
  if (role == "trainer") return RunTrainer(context);
  absl::Status status;
  if (role == "datapool") status = RunDataPool(context);
  if (role == "rewards") status = RunRewards(context);
  if (role == "scheduler") status = RunScheduler(context);
  if (role == "rollout") status = RunRollout(context);
  if (role == "gateway") status = RunGateway(context);
  if (role == "agents") status = RunAgents(context);
  INGOT_RETURN_IF_ERROR(status);
  return 0;
}

}  // namespace

int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised) {
  HandleSignals(supervised);
  const absl::StatusOr<int> code = RunRoleOrError(role, args, index);
  // A trainer that reached its end in spite of a signal returns its own exit code.
  const bool ended_by_signal = StopFlag() && (role == "trainer" ? absl::IsCancelled(code.status()) : code.ok());
  if (!code.ok()) {
    const int failed = Fail(code.status());
    return supervised && ended_by_signal ? kStoppedExit : failed;
  }
  return supervised && ended_by_signal ? kStoppedExit : *code;
}

}  // namespace ingot::app
