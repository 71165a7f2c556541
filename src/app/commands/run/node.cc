// `ingot node`: finds out which node of the run this is, and runs its agent or probes it.
#include "app/commands/run/node.h"
#include "app/checks/custom_loss_check.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "app/checks/nodes_check.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/status/status_endpoint.h"
#include "app/cluster/status/unresponsive_roles.h"
#include "app/cluster/supervisor.h"
#include "app/cluster/takeover.h"
#include "app/commands/run/run_command.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/record/run_metrics.h"
#include "app/record/run_view.h"
#include "app/run/full_disk.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"

namespace ingot::app {
namespace {

// Variables that contain a node's index within its group, for Ingot itself, Slurm, a Kubernetes Job, SkyPilot, and
// dstack. The first one that is set counts.
constexpr const char* kNumberVariables[] = {"INGOT_NODE", "SLURM_NODEID", "JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK",
                                            "DSTACK_NODE_RANK"};

absl::StatusOr<int> NodeNumber(int given) {
  if (given >= 0) return given;
  for (const char* variable : kNumberVariables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    int number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
    return absl::InvalidArgumentError(
        absl::StrCat(variable, " is '", text, "': it must be a number from 0; or use --node"));
  }
  return 0;
}

bool HasTrainer(const std::vector<RoleProcess>& roles) {
  return std::any_of(roles.begin(), roles.end(), [](const auto& role) { return role.role == "trainer"; });
}

// Returns whether this node holds the run's folder and its exit code is the run's.
bool Drives(const std::vector<RoleProcess>& roles) {
  return std::find(roles.begin(), roles.end(), RoleProcess{"trainer", 0}) != roles.end();
}

std::string NodeName(const std::string& group, int node) { return absl::StrCat(group, "-", node); }

std::string SocketOf(const RunDir& dir, const std::string& name) {
  return absl::StrCat(dir.sockets(), "/node-", name, ".sock");
}

// Returns "scheduler, rollout-0 (restarted 2 times), gateway (NOT RUNNING), agents (NO ANSWER), trainer (waits for
// batch 7)".
std::string DescribeStates(const std::vector<RoleState>& states, const std::vector<RoleStatus>& unresponsive,
                           const std::map<std::string, ReportedWaits>& waits) {
  std::string text;
  for (const RoleState& state : states) {
    const bool is_unresponsive = std::any_of(unresponsive.begin(), unresponsive.end(),
                                             [&](const auto& role) { return role.name == state.name; });
    absl::StrAppend(&text, text.empty() ? "" : ", ", state.name,
                    state.restarts > 0 ? absl::StrCat(" (restarted ", state.restarts, " times)") : "",
                    state.done        ? " (done)"
                    : state.pid < 0   ? " (NOT RUNNING)"
                    : is_unresponsive ? " (NO ANSWER)"
                                      : "");
    const auto wait = waits.find(state.name);  // without its work, which changes too often for the registry
    if (wait != waits.end() && !wait->second.empty() && state.pid > 0) {
      absl::StrAppend(&text, " (waits for ", wait->second.All(), ")");
    }
  }
  return text;
}

// Tracks what this node is running, for probes. Thread safe.
class Board {
 public:
  void Set(const std::vector<RoleState>& states) {
    base::MutexLock lock(mu_);
    states_ = states;
  }
  std::vector<RoleState> States() {
    base::MutexLock lock(mu_);
    return states_;
  }
  std::vector<RoleStatus> Statuses() {
    base::MutexLock lock(mu_);
    std::vector<RoleStatus> statuses;
    for (const RoleState& state : states_) {
      const bool well = state.done || state.pid > 0;
      absl::StatusOr<std::string> text = absl::UnavailableError("not running; its agent restarts it");
      if (well) text = state.done ? "done" : absl::StrCat("runs, restarted ", state.restarts, " times");
      statuses.push_back({state.name, "-", std::move(text)});
    }
    return statuses;
  }

 private:
  base::Mutex mu_;
  std::vector<RoleState> states_ ABSL_GUARDED_BY(mu_);
};

class Agent {
 public:
  // REQUIRES: the arguments outlive this object.
  Agent(const NodeArgs& args, const LoadedConfig& loaded, int node, std::vector<RoleProcess> roles)
      : args_(args),
        loaded_(loaded),
        config_(*loaded.config),
        name_(NodeName(args.group, node)),
        command_(CommandOfNode(args, node)),
        roles_(std::move(roles)),
        drives_(Drives(roles_)) {}

  absl::StatusOr<int> Run() {
    INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, MakeRunSecrets(config_));
    INGOT_RETURN_IF_ERROR(Open(secrets));
    unresponsive_ = std::make_unique<UnresponsiveRoles>([this] { return Sockets(); },
                                                        [this](const std::string& line) {
                                                          INGOT_LOG(warn, "{}", line);
                                                          Print(line);
                                                          ReportRegistry();
                                                        });
    const absl::Cleanup forget = [this] { waits_.Forget(); };
    waits_.Follow(nullptr, [this](const std::string& waits) {
      Print(absl::StrCat("waits for ", waits.empty() ? "nothing now" : waits));
      ReportRegistry();
    });
    waits_.Start();
    INGOT_ASSIGN_OR_RETURN(RoleSpecs::Parts parts, PartsOf(std::move(secrets)));
    if (NeedsLoadBalancer(config_)) INGOT_RETURN_IF_ERROR(FindLoadBalancer(parts));
    const RoleSpecs specs(config_, parts);
    parts.existed = true;  // because roles that move here continue the run
    const RoleSpecs moved(config_, parts);
    const std::unique_ptr<NodeClocks> clocks = WatchClocks();
    if (clocks != nullptr)
      INGOT_RETURN_IF_ERROR(clocks->Join(std::chrono::seconds(3), registry_->ttl() + std::chrono::seconds(3)));
    INGOT_RETURN_IF_ERROR(ClaimEngines());
    std::vector<std::unique_ptr<Takeover>> takeovers = WatchOthers(moved);
    SupervisorOptions options;
    options.max_restarts = config_.cluster.max_restarts;
    options.min_members = config_.cluster.min_trainer_ranks;
    options.on_states = [this](const auto& states) { Report(states); };
    options.obstacle = [this] { return DescribeFullDisk(dir_->path()); };
    options.arrivals = [&takeovers] {
      std::vector<RoleSpec> arrived;
      for (const auto& takeover : takeovers) {
        for (RoleSpec& spec : takeover->Arrived()) arrived.push_back(std::move(spec));
      }
      return arrived;
    };
    unresponsive_->Start();
    Supervisor supervisor(options);
    for (const RoleProcess& role : roles_) INGOT_RETURN_IF_ERROR(supervisor.Start(specs.Spec(role)));
    Print(absl::StrCat(roles_.size(), " processes; logs ", dir_->logs()));
    INGOT_ASSIGN_OR_RETURN(const RunView page, ServePage());
    const absl::StatusOr<int> code = supervisor.Run([] { return StopFlag().load(); },
                                                    [this](const std::string& line) {
                                                      INGOT_LOG(info, "{}", line);
                                                      Print(line);
                                                    });
    if (page.follower != nullptr && code.ok() && *code == 0) page.follower->End(/*ok=*/true);
    if (drives_ && !DescribeEnd(dir_->path(), config_).empty()) PrintNextCommands(dir_->path());
    if (!absl::IsCancelled(code.status())) return code;
    if (drives_) return WithNext(code.status(), *dir_, NextCommand());
    Print(DescribeStop());
    return 0;  // a node that does not drive the run exits when told to
  }

 private:
  std::string NextCommand() const {
    return InJob() ? CommandIn(dir_->path(), CommandOf("launch", args_.run)) : command_;
  }

  // Describes what to do after a node was stopped.
  std::string DescribeStop() const {
    const std::string ended = DescribeEnd(dir_->path(), config_);
    if (!ended.empty()) return ended;
    const double moves = registry_ == nullptr ? 0 : config_.cluster.takeover_s;
    return absl::StrCat("this node is stopped; `", NextCommand(), " --resume` restarts it",
                        moves > 0 ? absl::StrCat("; after ", moves, " s (cluster.takeover_s) other nodes take over ",
                                                 "its roles that can move")
                                  : "");
  }

  void Print(const std::string& line) const {
    std::printf("[%s %s] %s\n", config_.name.c_str(), name_.c_str(), base::Printable(line).c_str());
  }

  // Returns whether this node is part of a job that the launcher rendered. If so, the launcher has opened the folder
  // and copied the chat template.
  bool InJob() const { return config_.cluster.launcher != LauncherKind::kLocal && args_.run.resume; }

  // The node that drives the run holds its folder. Other nodes use the existing folder, or create their subfolders.
  absl::StatusOr<RunDir> OpenFolder() const {
    if (!drives_) return RunDir::Attach(config_.root, config_.name);
    if (InJob()) return RunDir::OpenInJob(config_.root, config_.name);
    const IfExists if_exists = args_.run.resume ? IfExists::kResume : config_.if_exists;
    INGOT_ASSIGN_OR_RETURN(RunDir dir, RunDir::Open(config_.root, config_.name, if_exists));
    if (NodesOf(config_.cluster) > 1) dir.LeaveReplaced();
    return dir;
  }

  // Opens the folder and the registry, and creates this node's entry.
  absl::Status Open(const RunSecrets& secrets) {
    INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config_.cluster, secrets.token));
    INGOT_ASSIGN_OR_RETURN(RunDir dir, OpenFolder());
    dir_.emplace(std::move(dir));
    base::InitLogging("node " + name_, config_.log_level, absl::StrCat(dir_->logs(), "/node-", name_, ".log"));
    if (!TrainerAlone(config_) || config_.cluster.trainer_ranks > 1) {
      INGOT_ASSIGN_OR_RETURN(registry_, RunRegistry::Open(config_, dir_->path(), access));
      if (drives_) INGOT_RETURN_IF_ERROR(registry_->ClaimRun());
      // The entry of this node's previous agent exists until its lease expires.
      INGOT_RETURN_IF_ERROR(registry_->RegisterNode(name_, "", registry_->ttl() + std::chrono::seconds(3)));
    }
    auto endpoint = StatusEndpoint::Start(SocketOf(*dir_, name_), [this] { return board_.Statuses(); });
    if (endpoint.ok()) probes_ = *std::move(endpoint);
    if (!endpoint.ok()) INGOT_LOG(warn, "probes get no answer: {}", std::string(endpoint.status().message()));
    if (drives_ && !InJob()) INGOT_RETURN_IF_ERROR(KeepChatTemplate(config_.model, *dir_));
    if (drives_ && !InJob()) INGOT_RETURN_IF_ERROR(TraceLossForRoles());
    if (drives_ && !InJob()) INGOT_RETURN_IF_ERROR(KeepCommand(*dir_, command_));
    INGOT_RETURN_IF_ERROR(CheckMemory());
    if (drives_ && !InJob()) INGOT_RETURN_IF_ERROR(KeepTokenizer(dir_->path(), config_.model.path, text_));
    if (drives_) INGOT_RETURN_IF_ERROR(ClaimWeightStores(config_, *dir_));
    return drives_ ? dir_->WriteFile("config.yaml", loaded_.schema.EffectiveYaml()) : absl::OkStatus();
  }

  // On the node that drives the run, starts the run's page and loggers.
  absl::StatusOr<RunView> ServePage() {
    if (!drives_) return RunView();
    RunRegistry* const registry = TrainerAlone(config_) ? nullptr : registry_.get();
    INGOT_ASSIGN_OR_RETURN(RunView served, ServeLaunchedView(loaded_, *dir_, registry, text_.tokenizer, [this] {
                             return unresponsive_ == nullptr ? "" : unresponsive_->Waits()["trainer"].computes;
                           }));
    if (served.page != nullptr) Print("page " + served.page->NewLink());
    return served;
  }

  // The trainer's ranks read the trace from the run's folder.
  absl::Status TraceLossForRoles() {
    INGOT_ASSIGN_OR_RETURN(loaded_.config->trainer.custom.graph, CheckCustomLoss(config_));
    return KeepLoss(config_.trainer, *dir_);
  }

  absl::Status CheckMemory() {
    const bool computes = std::any_of(roles_.begin(), roles_.end(), [](const RoleProcess& process) {
      return process.role == "trainer" || process.role == "rollout";
    });
    if (!computes) return absl::OkStatus();
    ModelOptions kept = config_.model;
    UseKeptTemplate(dir_->path(), kept);
    INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(kept));
    text_ = model.text;
    return CheckHeldHere(config_, model.shape, roles_, absl::StrCat("node ", name_));
  }

  absl::StatusOr<RoleSpecs::Parts> PartsOf(RunSecrets secrets) {
    RoleSpecs::Parts parts;
    parts.folder = dir_->path();
    // The run's copy, because the user's file may have changed by the time a role restarts.
    parts.config = drives_ ? dir_->path() + "/config.yaml" : args_.run.config;
    parts.existed = drives_ ? dir_->existed() : args_.run.resume;
    INGOT_ASSIGN_OR_RETURN(parts.binary, OwnBinary());
    if (!drives_) parts.settings = args_.run.overrides;
    parts.secrets = std::move(secrets);
    if (!HasTrainer(roles_) || config_.cluster.trainer_ranks == 1) return parts;
    parts.first_rank =
        std::find_if(roles_.begin(), roles_.end(), [](const auto& role) { return role.role == "trainer"; })->index;
    if (drives_) {
      const std::string host = OwnHost(config_.cluster);
      INGOT_ASSIGN_OR_RETURN(meeting_, HoldPort("cluster.trainer_port", host, config_.cluster.trainer_port));
      parts.meeting_port = meeting_.port;
      parts.meeting_host = host;
      INGOT_RETURN_IF_ERROR(registry_->Register("ranks", absl::StrCat(host, ":", parts.meeting_port)));
      return parts;
    }
    INGOT_ASSIGN_OR_RETURN(const std::string place, Find("ranks", "the node with rank 0 of the trainer"));
    const size_t colon = place.rfind(':');
    parts.meeting_host = place.substr(0, colon);
    if (absl::SimpleAtoi(place.substr(colon + 1), &parts.meeting_port)) return parts;
    return absl::InternalError(absl::StrCat("the ranks' address in the registry is '", place, "'"));
  }

  // If there are several gateways, starts or finds their load balancer, which is on the node that drives the run.
  absl::Status FindLoadBalancer(RoleSpecs::Parts& parts) {
    if (drives_) {
      INGOT_ASSIGN_OR_RETURN(load_balancer_, LoadBalancer::Listen(config_.http.host, config_.http.port));
      parts.load_balancer = LoadBalancerUrl(config_, OwnHost(config_.cluster), load_balancer_->port());
      load_balancer_updater_ = std::make_unique<LoadBalancerUpdater>(*load_balancer_, *registry_);
      return registry_->Register("balancer", parts.load_balancer);
    }
    const auto is_gateway = [](const RoleProcess& role) { return role.role == "gateway"; };
    if (std::none_of(roles_.begin(), roles_.end(), is_gateway)) return absl::OkStatus();
    INGOT_ASSIGN_OR_RETURN(parts.load_balancer,
                           Find("balancer", "the node that drives the run, with the address for agents"));
    return absl::OkStatus();
  }

  // Returns the address that another node registers under this name. Returns CANCELLED if this node was told to stop.
  absl::StatusOr<std::string> Find(const std::string& name, const std::string& who) {
    Print("waits for " + who);
    base::Wait wait(who);
    while (!StopFlag()) {
      const absl::StatusOr<std::vector<RolePlace>> places = registry_->Places();
      if (!places.ok() && !absl::IsUnavailable(places.status())) return places.status();
      wait.Because(places.ok() ? who : absl::StrCat(who, " (", places.status().message(), ")"));
      for (const RolePlace& place : places.ok() ? *places : std::vector<RolePlace>()) {
        if (place.name == name) return place.address;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return absl::CancelledError(absl::StrCat("stopped before ", who, " was there"));
  }

  bool EnginesMove() const {
    return registry_ != nullptr && config_.cluster.takeover_s > 0 && config_.cluster.takeover_engines > 0;
  }

  // If engines can move, claims this node's engines, except those that another node has taken over.
  absl::Status ClaimEngines() {
    if (!EnginesMove()) return absl::OkStatus();
    absl::Status rejected;
    for (auto role = roles_.begin(); role != roles_.end();) {
      const absl::Status claimed =
          role->role == "rollout"
              ? registry_->ClaimEngine(RoleName(role->role, role->index), registry_->ttl() + std::chrono::seconds(3))
              : absl::OkStatus();
      if (!claimed.ok() && !absl::IsAlreadyExists(claimed)) return claimed;
      if (!claimed.ok()) Print(absl::StrCat("an engine runs on another node, not here: ", claimed.message()));
      if (!claimed.ok()) rejected = claimed;
      role = claimed.ok() ? role + 1 : roles_.erase(role);
    }
    if (!roles_.empty() || rejected.ok()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("other nodes have taken over all engines of node ", name_, ": ", rejected.message()));
  }

  // Starts watching the other nodes' clocks.
  std::unique_ptr<NodeClocks> WatchClocks() {
    if (registry_ == nullptr) return nullptr;
    NodeClocks::Options options;
    options.own = name_;
    options.report_again = [this] { ReportRegistry(); };
    options.on_gap = [this](const std::string& line) {
      INGOT_LOG(warn, "{}", line);
      Print(line);
    };
    return std::make_unique<NodeClocks>(*registry_, std::move(options));
  }

  // Starts watching the roles that can move here.
  std::vector<std::unique_ptr<Takeover>> WatchOthers(const RoleSpecs& specs) {
    std::vector<std::unique_ptr<Takeover>> takeovers;
    if (registry_ == nullptr || config_.cluster.takeover_s <= 0) return takeovers;
    Takeover::Options options;
    options.grace = std::chrono::milliseconds(static_cast<int64_t>(config_.cluster.takeover_s * 1e3));
    std::vector<Takeover::Seat> nodes, engines;
    for (const NodeGroup& group : config_.cluster.groups) {
      for (int i = 0; i < group.nodes; ++i) {
        if (NodeName(group.name, i) != name_) AddSeats(group.name, i, specs, nodes, engines);
      }
    }
    if (drives_) takeovers.push_back(std::make_unique<Takeover>(Seats::Nodes(*registry_), std::move(nodes), options));
    const auto is_engine = [](const RoleProcess& role) { return role.role == "rollout"; };
    if (!EnginesMove() || std::none_of(roles_.begin(), roles_.end(), is_engine)) return takeovers;
    options.most = config_.cluster.takeover_engines;
    takeovers.push_back(std::make_unique<Takeover>(Seats::Engines(*registry_), std::move(engines), options));
    return takeovers;
  }

  // Adds a node's seats that can move.
  void AddSeats(const std::string& group, int number, const RoleSpecs& specs, std::vector<Takeover::Seat>& nodes,
                std::vector<Takeover::Seat>& engines) const {
    const absl::StatusOr<std::vector<RoleProcess>> roles = RolesOfNode(config_, group, number);
    if (!roles.ok()) return;
    Takeover::Seat node{NodeName(group, number), {}};
    for (const RoleProcess& role : *roles) {
      if (role.role == "trainer") continue;
      RoleSpec spec = specs.Spec(role);
      spec.argv.insert(spec.argv.end(), spec.restart_extra.begin(), spec.restart_extra.end());
      spec.restart_extra.clear();
      if (role.role == "rollout") {
        engines.push_back({spec.name, {std::move(spec)}});
      } else {
        node.roles.push_back(std::move(spec));
      }
    }
    if (!node.roles.empty()) nodes.push_back(std::move(node));
  }

  // Returns the sockets of the roles that run here, including those that moved here.
  std::vector<RoleSocket> Sockets() {
    std::vector<RoleSocket> sockets;
    for (const RoleState& state : board_.States()) {
      if (state.pid > 0) sockets.push_back({state.name, MetricsSocket(*dir_, state.name)});
    }
    return sockets;
  }

  void Report(const std::vector<RoleState>& states) {
    board_.Set(states);
    ReportRegistry();
  }

  // Reports to the registry. If this process is waiting to start a role, or for an address, it reports that as its own
  // wait.
  void ReportRegistry() {
    if (registry_ == nullptr) return;
    std::string text = DescribeStates(board_.States(), unresponsive_->Unresponsive(), unresponsive_->Waits());
    const std::string own = waits_.Reported().All();
    if (!own.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", "(waits for ", own, ")");
    registry_->UpdateNodes(text);
  }

  const NodeArgs& args_;
  const LoadedConfig& loaded_;
  const RunConfig& config_;
  const std::string name_;
  const std::string command_;  // command that started this node, without --resume
  std::vector<RoleProcess> roles_;
  const bool drives_;
  TextParts text_;  // only on a node that computes, such as the driving node
  std::optional<RunDir> dir_;
  std::unique_ptr<RunRegistry> registry_;
  HeldPort meeting_;                             // port for the ranks, if rank 0 is on this node
  std::unique_ptr<LoadBalancer> load_balancer_;  // for several gateways, if this node drives the run
  std::unique_ptr<LoadBalancerUpdater> load_balancer_updater_;
  Board board_;
  RoleWaits waits_;  // of this process
  std::unique_ptr<StatusEndpoint>
      probes_;  // declared last, together with the next one, because their threads read the board
  std::unique_ptr<UnresponsiveRoles> unresponsive_;
};

// Queries this node's agent. Returns 0 if it answers and, for "ready", all its roles are running.
absl::StatusOr<int> Probe(const NodeArgs& args, const RunConfig& config, int node) {
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  INGOT_ASSIGN_OR_RETURN(const LaunchedStatus status, AskLauncher(NodeSocket(dir, NodeName(args.group, node))));
  std::printf("%s", status.lines.c_str());
  return args.probe == "alive" || status.all_answer ? 0 : 1;
}

absl::StatusOr<int> NodeOrError(const NodeArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const int node, NodeNumber(args.node));
  INGOT_ASSIGN_OR_RETURN(std::vector<RoleProcess> roles, RolesOfNode(config, args.group, node));
  if (!args.probe.empty()) return Probe(args, config, node);
  INGOT_RETURN_IF_ERROR(CheckGroups(config));
  INGOT_RETURN_IF_ERROR(CheckSharedToken(config));
  return RunNodeAgent(args, loaded, node, std::move(roles));
}

}  // namespace

int RunNode(const NodeArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = NodeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
