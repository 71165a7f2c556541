#include "app/commands/run/node_agent.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "app/checks/custom_loss_check.h"
#include "app/checks/machine_memory.h"
#include "app/checks/nodes_check.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/load_balancer.h"
#include "app/cluster/node_clocks.h"
#include "app/cluster/role_addresses.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/status/role_waits.h"
#include "app/cluster/status/status_endpoint.h"
#include "app/cluster/status/unresponsive_roles.h"
#include "app/cluster/supervisor.h"
#include "app/cluster/takeover.h"
#include "app/commands/run/node_addresses.h"
#include "app/commands/run/node_state.h"
#include "app/commands/run/node_takeover.h"
#include "app/commands/run/run_command.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/record/run_metrics.h"
#include "app/record/run_view.h"
#include "app/run/full_disk.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/training/weight_transports.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

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
        drives_(DrivesRun(roles_)) {}

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
    const RoleSpecs specs(config_, parts);
    parts.existed = true;  // because roles that move here continue the run
    const RoleSpecs moved(config_, parts);
    const std::unique_ptr<NodeClocks> clocks = WatchClocks();
    if (clocks != nullptr)
      INGOT_RETURN_IF_ERROR(clocks->Join(std::chrono::seconds(3), registry_->ttl() + std::chrono::seconds(3)));
    const auto print = [this](const std::string& line) { Print(line); };
    INGOT_RETURN_IF_ERROR(ClaimEngines(config_, registry_.get(), name_, print, roles_));
    std::vector<std::unique_ptr<Takeover>> takeovers = WatchOtherNodes(config_, registry_.get(), name_, roles_, moved);
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
    return 0;  // a node that does not drive the run exits when asked to
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
    addresses_.emplace(config_, registry_.get(), drives_, [this](const std::string& line) { Print(line); });
    auto endpoint = StatusEndpoint::Start(NodeSocket(*dir_, name_), [this] { return state_.Statuses(); });
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
    INGOT_RETURN_IF_ERROR(addresses_->SetRanks(roles_, parts));
    if (NeedsLoadBalancer(config_)) INGOT_RETURN_IF_ERROR(addresses_->SetLoadBalancer(roles_, parts));
    return parts;
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

  // Returns the sockets of the roles that run here, including those that moved here.
  std::vector<RoleSocket> Sockets() {
    std::vector<RoleSocket> sockets;
    for (const RoleState& state : state_.States()) {
      if (state.pid > 0) sockets.push_back({state.name, MetricsSocket(*dir_, state.name)});
    }
    return sockets;
  }

  void Report(const std::vector<RoleState>& states) {
    state_.Set(states);
    ReportRegistry();
  }

  // Reports to the registry. If this process is waiting to start a role, or for an address, it reports that as its own
  // wait.
  void ReportRegistry() {
    if (registry_ == nullptr) return;
    std::string text = DescribeStates(state_.States(), unresponsive_->Unresponsive(), unresponsive_->Waits());
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
  std::optional<NodeAddresses> addresses_;
  NodeState state_;
  RoleWaits waits_;  // of this process
  std::unique_ptr<StatusEndpoint>
      probes_;  // declared last, together with the next one, because their threads read the state
  std::unique_ptr<UnresponsiveRoles> unresponsive_;
};

}  // namespace

std::string NodeSocket(const RunDir& dir, const std::string& name) {
  return absl::StrCat(dir.sockets(), "/node-", name, ".sock");
}

absl::StatusOr<int> RunNodeAgent(const NodeArgs& args, const LoadedConfig& loaded, int node,
                                 std::vector<RoleProcess> roles) {
  return Agent(args, loaded, node, std::move(roles)).Run();
}

}  // namespace ingot::app
