#include "app/commands/run/local_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "app/checks/machine_memory.h"
#include "app/checks/port_check.h"
#include "app/checks/start_check.h"
#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/load_balancer.h"
#include "app/cluster/role_addresses.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/status/run_status.h"
#include "app/cluster/status/status_endpoint.h"
#include "app/cluster/status/unresponsive_roles.h"
#include "app/cluster/supervisor.h"
#include "app/commands/run/run_command.h"
#include "app/models/kept_tokenizer.h"
#include "app/record/run_metrics.h"
#include "app/record/run_view.h"
#include "app/roles/agents_substrate.h"
#include "app/run/full_disk.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/resume_check.h"
#include "app/run/run_dir.h"
#include "app/training/weight_transports.h"
#include "base/log.h"
#include "http/unix_socket.h"

namespace ingot::app {
namespace {

// Checks that each role can listen on its port. Otherwise, the error would appear only in the role's log, several
// times, after the run's folder has been created.
absl::Status CheckPortsFree(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  if (cluster.trainer_ranks > 1) {
    INGOT_RETURN_IF_ERROR(CheckPort("cluster.trainer_port", OwnHost(cluster), cluster.trainer_port));
  }
  if (TrainerAlone(config)) return absl::OkStatus();
  for (int i = 0; i < cluster.datapools; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPort("cluster.datapool_port", OwnHost(cluster), RolePort(cluster, "datapool", i)));
  }
  INGOT_RETURN_IF_ERROR(CheckPort("cluster.scheduler_port", OwnHost(cluster), cluster.scheduler_port));
  if (cluster.rewards_role) {
    INGOT_RETURN_IF_ERROR(CheckPort("cluster.rewards_port", OwnHost(cluster), cluster.rewards_port));
  }
  for (int i = 0; i < cluster.gateways; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPort("cluster.gateway_port", OwnHost(cluster), RolePort(cluster, "gateway", i)));
  }
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPort("cluster.rollout_port", OwnHost(cluster), RolePort(cluster, "rollout", i)));
  }
  for (int i = 0; config.metrics.port != 0 && i < MetricsPorts(config); ++i) {
    INGOT_RETURN_IF_ERROR(CheckPort("metrics.port", config.metrics.host, config.metrics.port + i));
  }
  return CheckPort("http.port", config.http.host, config.http.port);  // 0 = any free port
}

RoleSpecs::Parts PartsOf(const RunConfig& config, const std::string& folder, const std::string& binary) {
  RoleSpecs::Parts parts;
  parts.folder = folder;
  // the run's copy, because the user's file may have changed by the time a role restarts
  parts.config = folder + "/config.yaml";
  parts.binary = binary;
  parts.meeting_port = config.cluster.trainer_port;
  return parts;
}

// Runs every role as a process on this machine.
class LocalLauncher final : public RunLauncher {
 public:
  // REQUIRES: the arguments outlive this object.
  LocalLauncher(const RunArgs& args, const LoadedConfig& loaded, std::string binary, std::vector<std::string> warnings,
                const ModelSetup& model, const RoleWaits& waits)
      : args_(args),
        loaded_(loaded),
        config_(*loaded.config),
        binary_(std::move(binary)),
        warnings_(std::move(warnings)),
        text_(model.text),
        shape_(model.shape),
        waits_(waits) {}

  absl::StatusOr<std::string> Plan() const override {
    const RoleSpecs specs(config_, PartsOf(config_, FolderOf(config_), binary_));
    const std::vector<RoleSpec> made = SpecsOf(specs);
    return absl::StrCat("run '", config_.name, "' in ", FolderOf(config_), ": ", made.size(),
                        " processes on this machine\n", DescribeSpecs(made));
  }

  absl::Status Start() override {
    const ClusterOptions& cluster = config_.cluster;
    INGOT_RETURN_IF_ERROR(CheckPortsFree(config_));
    INGOT_RETURN_IF_ERROR(CheckRunPool(config_, args_.resume));
    INGOT_RETURN_IF_ERROR(CheckWeightStores(config_, FolderOf(config_)));
    INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, MakeRunSecrets(config_));
    INGOT_ASSIGN_OR_RETURN(access_, AccessOf(cluster, secrets.token));
    if (!TrainerAlone(config_)) INGOT_RETURN_IF_ERROR(CheckReach(AtHost(cluster, 0), access_));
    INGOT_RETURN_IF_ERROR(OpenFolder());
    INGOT_RETURN_IF_ERROR(CheckHeldHere(config_, shape_, AllRoles(config_), "this machine"));
    INGOT_RETURN_IF_ERROR(ClaimWeightStores(config_, *dir_));
    RoleSpecs::Parts parts = PartsOf(config_, dir_->path(), binary_);
    parts.existed = dir_->existed();
    parts.secrets = std::move(secrets);
    if (cluster.trainer_ranks > 1) {
      INGOT_ASSIGN_OR_RETURN(meeting_, HoldPort("cluster.trainer_port", OwnHost(cluster), cluster.trainer_port));
      parts.meeting_port = meeting_.port;
    }
    if (NeedsLoadBalancer(config_)) {
      INGOT_ASSIGN_OR_RETURN(load_balancer_, LoadBalancer::Listen(config_.http.host, config_.http.port));
      parts.load_balancer = LoadBalancerUrl(config_, OwnHost(config_.cluster), load_balancer_->port());
      load_balancer_updater_ = std::make_unique<LoadBalancerUpdater>(*load_balancer_, *registry_);
    }
    specs_.emplace(config_, std::move(parts));
    const std::vector<RoleSpec> made = SpecsOf(*specs_);
    // Prints the isolation level, and rejects the run now if sandbox.require needs a stronger one. Otherwise, the
    // agents role would fail repeatedly.
    const bool agents = std::any_of(made.begin(), made.end(), [](const auto& spec) { return spec.name == "agents"; });
    if (agents) INGOT_RETURN_IF_ERROR(MakeAgentsSubstrate(config_, *dir_).status());
    SupervisorOptions options;
    options.max_restarts = cluster.max_restarts;
    options.min_members = cluster.min_trainer_ranks;
    options.obstacle = [this] { return DescribeFullDisk(dir_->path()); };
    supervisor_.emplace(options);
    for (const RoleSpec& spec : made) INGOT_RETURN_IF_ERROR(supervisor_->Start(spec));
    WatchSilence(made);
    ServeStatus();
    INGOT_ASSIGN_OR_RETURN(view_, ServeLaunchedView(loaded_, *dir_, registry_.get(), text_.tokenizer,
                                                    [this] { return unresponsive_->Waits()["trainer"].computes; }));
    if (view_.page != nullptr) std::printf("page %s\n", view_.page->NewLink().c_str());
    std::printf("%s: %d processes; logs %s; `%s` prints their state\n", config_.name.c_str(),
                static_cast<int>(made.size()), dir_->logs().c_str(), CommandOf("status", args_).c_str());
    return absl::OkStatus();
  }

  absl::StatusOr<int> Watch(const std::atomic<bool>& stop) override {
    const auto stopped = [&] { return stop || stopping_; };
    const absl::StatusOr<int> code = supervisor_->Run(stopped, [&](const std::string& line) {
      INGOT_LOG(info, "{}", line);
      PrintLine(config_, line);
    });
    INGOT_RETURN_IF_ERROR(WithNext(code.status(), *dir_, CommandOf("launch", args_)));
    if (view_.follower != nullptr && code.ok() && *code == 0) view_.follower->End(/*ok=*/true);
    if (!DescribeEnd(dir_->path(), config_).empty()) PrintNextCommands(dir_->path());
    return code;
  }

  absl::Status Stop() override {
    stopping_ = true;
    return absl::OkStatus();
  }

 private:
  std::vector<RoleSpec> SpecsOf(const RoleSpecs& specs) const {
    std::vector<RoleSpec> made;
    for (const RoleProcess& role : AllRoles(config_)) made.push_back(specs.Spec(role));
    return made;
  }

  // Opens the run's folder and registry and claims the run. This process holds the folder.
  absl::Status OpenFolder() {
    INGOT_ASSIGN_OR_RETURN(
        RunDir dir, RunDir::Open(config_.root, config_.name, args_.resume ? IfExists::kResume : config_.if_exists));
    dir_.emplace(std::move(dir));
    base::InitLogging("launch", config_.log_level, dir_->logs() + "/launch.log");
    for (const std::string& warning : warnings_) INGOT_LOG(warn, "warning: {}", warning);
    if (dir_->existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded_, *dir_));
    INGOT_RETURN_IF_ERROR(dir_->WriteFile("config.yaml", loaded_.schema.EffectiveYaml()));
    INGOT_RETURN_IF_ERROR(KeepChatTemplate(config_.model, *dir_));
    INGOT_RETURN_IF_ERROR(KeepLoss(config_.trainer, *dir_));
    INGOT_RETURN_IF_ERROR(KeepTokenizer(dir_->path(), config_.model.path, text_));
    INGOT_RETURN_IF_ERROR(KeepCommand(*dir_, CommandOf("launch", args_)));
    if (TrainerAlone(config_)) return absl::OkStatus();
    INGOT_ASSIGN_OR_RETURN(registry_, RunRegistry::Open(config_, dir_->path(), access_));
    return registry_->ClaimRun();
  }

  void WatchSilence(const std::vector<RoleSpec>& made) {
    for (const RoleSpec& spec : made) sockets_.push_back({spec.name, MetricsSocket(*dir_, spec.name)});
    unresponsive_ = std::make_unique<UnresponsiveRoles>([this] { return sockets_; },
                                                        [this](const std::string& line) {
                                                          INGOT_LOG(warn, "{}", line);
                                                          PrintLine(config_, line);
                                                        });
    unresponsive_->Start();
  }

  void ServeStatus() {
    auto started = StatusEndpoint::Start(LaunchSocket(dir_->path()), [this] { return Roles(); });
    if (!started.ok()) INGOT_LOG(warn, "`ingot status` will not answer: {}", std::string(started.status().message()));
    if (started.ok()) status_ = *std::move(started);
  }

  // Uses the last known addresses, because the registry itself may not answer. The result includes roles that stop
  // answering while they are being queried.
  std::vector<RoleStatus> Roles() {
    std::vector<RoleStatus> roles;
    if (registry_ != nullptr) {
      roles = AskRoles(registry_->LastPlaces(), registry_->Describe(), config_.cluster, access_);
    }
    roles = WithUnresponsive(std::move(roles), unresponsive_->Unresponsive());
    AddOthers(roles);
    std::map<std::string, ReportedWaits> waits = unresponsive_->Waits();
    if (const ReportedWaits own = waits_.Reported(); !own.empty()) waits["launch"] = own;
    return WithWaits(std::move(roles), waits);
  }

  // Adds the roles that serve no rpcs: trainer and agents. A role without a process is about to start or is done.
  void AddOthers(std::vector<RoleStatus>& roles) {
    for (const RoleSocket& role : sockets_) {
      const auto is_it = [&](const RoleStatus& status) { return status.name == role.name; };
      if (std::any_of(roles.begin(), roles.end(), is_it)) continue;
      RoleStatus& status = roles.emplace_back(role.name, "-", "has no process now");
      const absl::StatusOr<int> fd = http::ConnectUnix(role.path);
      if (!fd.ok()) continue;
      status.state = "runs";
      status.pid = http::ListenerOf(*fd);
      close(*fd);
    }
  }

  const RunArgs& args_;
  const LoadedConfig& loaded_;
  const RunConfig& config_;
  const std::string binary_;
  const std::vector<std::string> warnings_;
  const TextParts text_;
  const model::ModelConfig shape_;
  const RoleWaits& waits_;  // of this process
  RpcAccess access_;
  std::optional<RunDir> dir_;
  std::unique_ptr<RunRegistry> registry_;
  std::optional<RoleSpecs> specs_;
  std::optional<Supervisor> supervisor_;
  HeldPort meeting_;                             // port for the trainer's ranks
  std::unique_ptr<LoadBalancer> load_balancer_;  // used with several gateways
  std::unique_ptr<LoadBalancerUpdater> load_balancer_updater_;
  std::vector<RoleSocket> sockets_;  // of all roles
  std::unique_ptr<UnresponsiveRoles> unresponsive_;
  RunView view_;                            // destroyed before the registry whose channels it uses
  std::unique_ptr<StatusEndpoint> status_;  // declared last, because its thread uses the above
  bool stopping_ = false;
};

}  // namespace

std::string LaunchSocket(const std::string& folder) { return folder + "/sockets/launch.sock"; }

std::unique_ptr<RunLauncher> MakeLocalLauncher(const RunArgs& args, const LoadedConfig& loaded, std::string binary,
                                               std::vector<std::string> warnings, const ModelSetup& model,
                                               const RoleWaits& waits) {
  return std::make_unique<LocalLauncher>(args, loaded, std::move(binary), std::move(warnings), model, waits);
}

}  // namespace ingot::app
