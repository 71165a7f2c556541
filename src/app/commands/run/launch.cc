#include "app/commands/run/launch.h"

#include <cstdio>
#include <string>

#include "app/checks/run_check.h"
#include "app/cluster/launchers/slurm.h"
#include "app/cluster/status/role_waits.h"
#include "app/commands/run/job_submission.h"
#include "app/commands/run/local_launcher.h"
#include "app/commands/run/run_command.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/record/run_metrics.h"
#include "app/record/run_view.h"
#include "app/roles/agents_substrate.h"
#include "app/run/full_disk.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "base/log.h"

namespace ingot::app {
namespace {

// Socket for `ingot status` in the run's sockets folder.
constexpr char kLaunchSocket[] = "launch.sock";

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

std::string FolderOf(const RunConfig& config) { return absl::StrCat(config.root, "/", config.name); }

void PrintLine(const RunConfig& config, const std::string& line) {
  std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
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
    auto started = StatusEndpoint::Start(absl::StrCat(dir_->sockets(), "/", kLaunchSocket), [this] { return Roles(); });
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

// A launcher for a job and the file in the run's folder that its Start reads.
struct JobPlan {
  std::unique_ptr<RunLauncher> launcher;
  std::string file;
};

JobPlan PlanJob(const LoadedConfig& loaded, const std::string& binary) {
  const RunConfig& config = *loaded.config;
  JobOptions options;
  options.on_status = [&config](const std::string& line) { PrintLine(config, line); };
  if (config.cluster.launcher == LauncherKind::kKubernetes) {
    return {std::make_unique<KubernetesLauncher>(config, loaded.schema.EffectiveYaml(),
                                                 FolderOf(config) + "/kubernetes.yaml", std::move(options)),
            "kubernetes.yaml"};
  }
  SlurmScript script;
  script.name = config.name;
  script.folder = FolderOf(config);
  script.binary = binary;
  script.groups = config.cluster.groups;
  script.options = config.cluster.slurm;
  script.drain_s = config.cluster.trainer_stop_s;
  return {std::make_unique<SlurmLauncher>(std::move(script), std::move(options)), "launch.sbatch"};
}

// The run's folder, with the job's file. A job that waits in its queue does not hold the folder, so its launcher is
// asked.
absl::StatusOr<RunDir> PrepareJob(const RunArgs& args, const LoadedConfig& loaded, const TextParts& text,
                                  JobPlan& job) {
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const std::string present, job.launcher->Present());
  if (!present.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run '", config.name, "' is launched already: ", present, ", or choose another run.name"));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string file, job.launcher->Plan());
  INGOT_ASSIGN_OR_RETURN(
      RunDir dir, RunDir::OpenForJob(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepLoss(config.trainer, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, text));
  INGOT_RETURN_IF_ERROR(KeepCommand(dir, CommandOf("launch", args)));
  INGOT_RETURN_IF_ERROR(dir.WriteFile(job.file, file));
  return dir;
}

// Called after a submission failed with `failed`. Restores the run that the job would have replaced, unless part of the
// job may exist. An error from sbatch or kubectl does not rule that out, because a busy server's response can be lost.
absl::Status PutReplacedBack(const absl::Status& failed, RunLauncher& launcher, RunDir& dir) {
  constexpr auto kLate = std::chrono::seconds(3);  // a job whose response was lost may be listed a moment later
  if (!dir.replaces()) return failed;
  absl::StatusOr<std::string> present = launcher.Present();
  if (present.ok() && present->empty()) {
    std::this_thread::sleep_for(kLate);
    present = launcher.Present();
  }
  absl::Status back = present.status();
  if (present.ok()) back = present->empty() ? dir.TakeBack() : absl::FailedPreconditionError(*present);
  if (back.ok()) return failed;  // the destructor of `dir` restores it
  return absl::Status(
      failed.code(),
      absl::StrCat(failed.message(), "; the run that the job was to replace is kept in ", dir.replaced(),
                   ", because part of the job may exist (", back.message(),
                   "): once it is gone, the next `ingot launch` puts the run back, unless the new run has begun"));
}

// No process holds the folder while the job is submitted: its node with the trainer takes it, maybe before the
// submission ends.
absl::Status SubmitJob(const RunArgs& args, const LoadedConfig& loaded, const TextParts& text, JobPlan& job) {
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const LaunchLock lock, LaunchLock::Acquire(config.root, config.name));
  INGOT_ASSIGN_OR_RETURN(RunDir dir, PrepareJob(args, loaded, text, job));
  INGOT_RETURN_IF_ERROR(dir.HandOver());
  const absl::Status started = job.launcher->Start();
  if (!started.ok()) return PutReplacedBack(started, *job.launcher, dir);
  std::printf("%s: submitted; the nodes' output is in %s/logs\n", config.name.c_str(), FolderOf(config).c_str());
  if (const absl::Status dropped = dir.DropReplaced(); !dropped.ok()) {
    PrintLine(config, absl::StrCat("the replaced run is not removed: ", dropped.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> LaunchOrError(const LaunchArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  const bool here = config.cluster.launcher == LauncherKind::kLocal;
  INGOT_ASSIGN_OR_RETURN(const RunCheck check, CheckRun(config, args.dry_run ? AskedBy::kDryRun : AskedBy::kLaunch));
  loaded.config->trainer.custom.graph = check.loss_graph;
  INGOT_ASSIGN_OR_RETURN(const std::string binary, OwnBinary());
  base::InitLogging("launch", "warn", "");  // until there is a folder; PrintLine prints everything else
  RoleWaits waits;
  waits.Follow(nullptr, [&config](const std::string& reported) {
    PrintLine(config, absl::StrCat("the launcher waits for ", reported.empty() ? "nothing now" : reported));
  });
  waits.Start();
  JobPlan plan;
  if (here) {
    plan.launcher = MakeLocalLauncher(args.run, loaded, binary, check.start.warnings, check.model, waits);
  } else {
    plan = PlanJob(loaded, binary);
  }
  if (args.dry_run) {
    INGOT_ASSIGN_OR_RETURN(const std::string text, plan.launcher->Plan());
    std::printf("%s", text.c_str());
    return 0;
  }
  if (config.cluster.launcher == LauncherKind::kSlurm) {
    INGOT_RETURN_IF_ERROR(CheckSlurm(config.cluster.groups, RunHere));
  }
  INGOT_RETURN_IF_ERROR(here ? plan.launcher->Start() : SubmitJob(args.run, loaded, check.model.text, plan));
  return plan.launcher->Watch(StopFlag());
}

}  // namespace

int Launch(const LaunchArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = LaunchOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
