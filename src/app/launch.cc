// `ingot launch` and `ingot status`: every role as its own process of this machine.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "app/agents_substrate.h"
#include "app/commands.h"
#include "app/device.h"
#include "app/grpc_access.h"
#include "app/model_setup.h"
#include "app/port_check.h"
#include "app/process.h"
#include "app/resume_check.h"
#include "app/role_addresses.h"
#include "app/run_dir.h"
#include "app/run_loggers.h"
#include "app/run_page.h"
#include "app/run_secrets.h"
#include "app/run_status.h"
#include "app/start_check.h"
#include "app/supervisor.h"
#include "app/threads.h"
#include "base/log.h"
#include "base/printable.h"
#include "datapool/grpc_client.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::string> OwnBinary() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot find this program's file: ", error.message()));
  return path.string();
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// The wave in which a role is stopped: first the roles that drive the run, then the roles that they call, the pool
// last.
int StopWaveOf(std::string_view role) {
  if (role == "agents" || role == "trainer") return 0;
  if (role == "gateway") return 1;
  return role == "datapool" ? 3 : 2;
}

// In the run's folder of sockets: answers `ingot status`.
constexpr char kLaunchSocket[] = "launch.sock";

// Whether the run has no role but the trainer: supervised training calls no other role.
bool TrainerAlone(const RunConfig& config) { return config.tasks.empty(); }

// Checks that each role can listen at its port. A role would find out only in its own log, several times over, after
// the run has its folder.
absl::Status CheckPortsFree(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  if (cluster.trainer_ranks > 1) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.trainer_port", cluster.host, cluster.trainer_port));
  }
  if (TrainerAlone(config)) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.datapool_port", cluster.host, cluster.datapool_port));
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.scheduler_port", cluster.host, cluster.scheduler_port));
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.gateway_port", cluster.host, cluster.gateway_port));
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.rollout_port", cluster.host, cluster.rollout_port + i));
  }
  for (int i = 0; config.metrics.port != 0 && i < 5 + cluster.rollout_engines; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("metrics.port", config.metrics.host, config.metrics.port + i));
  }
  return CheckPortFree("http.port", config.http.host, config.http.port);  // 0 = any free one
}

// The specs of a run's processes, for its supervisor.
class Roles {
 public:
  Roles(const RunConfig& config, const RunDir& dir, std::string binary, RunSecrets secrets)
      : config_(config), dir_(dir), binary_(std::move(binary)), secrets_(std::move(secrets)) {}

  bool StartsAgents() const { return !TrainerAlone(config_) && !config_.agents.recipes.empty(); }

  // The roles that serve the trainer, without the agents.
  std::vector<RoleSpec> Services() const {
    std::vector<RoleSpec> roles;
    if (TrainerAlone(config_)) return roles;
    roles.push_back(Role("datapool", 0));
    if (dir_.existed()) roles.back().argv.push_back("--resume");
    roles.push_back(Role("scheduler", 0));
    roles.back().restart_extra = {"--resume"};
    for (int i = 0; i < config_.cluster.rollout_engines; ++i) roles.push_back(Role("rollout", i));
    roles.push_back(Role("gateway", 0));
    roles.back().inherits_stdout = !StartsAgents();  // it prints the address for agents
    return roles;
  }

  RoleSpec Agents() const { return Role("agents", 0); }

  // `place` names the process; `rank` of `ranks` may change when others are lost. REQUIRES: this outlives the spec.
  RoleSpec Trainer(int place, int rank, int ranks) const {
    RoleSpec spec = Role("trainer", place);
    if (config_.cluster.trainer_ranks > 1) {
      spec.group = "trainer";
      for (const std::string& word : {std::string("--rank"), absl::StrCat(rank), std::string("--set"),
                                      absl::StrCat("cluster.trainer_ranks=", ranks)}) {
        spec.argv.push_back(word);
      }
      spec.renumbered = [this, place](int index, int size) { return Trainer(place, index, size); };
    }
    if (dir_.existed()) {
      spec.argv.push_back("--resume");
    } else {
      spec.restart_extra = {"--resume"};
    }
    spec.decides = spec.inherits_stdout = rank == 0;
    return spec;
  }

 private:
  RoleSpec Role(const std::string& name, int index) const {
    RoleSpec spec;
    spec.name = name == "rollout" || index > 0 ? absl::StrCat(name, "-", index) : name;
    // The run's copy: the user's file may have changed by the time that a role is restarted.
    spec.argv = {binary_, name, dir_.path() + "/config.yaml", "--child", absl::StrCat(getpid()), "--token-fd", "0"};
    if (name == "rollout") {
      spec.argv.push_back("--engine");
      spec.argv.push_back(absl::StrCat(index));
    }
    spec.log_path = absl::StrCat(dir_.logs(), "/", spec.name, ".log");
    spec.may_finish = name == "agents" || name == "trainer";
    spec.wave = StopWaveOf(name);
    const bool opens = name == "agents" || name == "gateway";
    spec.input = RunSecrets{secrets_.token, opens ? secrets_.admin_key : ""}.Text();
    // Time to clean up the agents' folders, and to save the trained weights.
    if (name == "agents") spec.stop_grace += Milliseconds(config_.agents.stop_timeout_s);
    if (name == "trainer") spec.stop_grace = Milliseconds(config_.cluster.trainer_stop_s);
    return spec;
  }

  const RunConfig& config_;
  const RunDir& dir_;
  const std::string binary_;
  const RunSecrets secrets_;
};

// The page of a launched run, with the clients that it asks.
struct LaunchedPage {
  std::unique_ptr<datapool::Client> pool;
  std::unique_ptr<scheduler::Client> scheduler;
  std::vector<std::shared_ptr<rollout::Client>> engines;
  std::unique_ptr<RunPage> page;  // last: it ends first
};

absl::StatusOr<LaunchedPage> ServeLaunchedPage(const RunConfig& config, const RunDir& dir, const RpcAccess& access,
                                               const ModelSetup& model) {
  constexpr std::chrono::milliseconds kDeadline(5000);
  const ClusterOptions& cluster = config.cluster;
  LaunchedPage served;
  served.pool = datapool::NewGrpcClient(Connect(DataPoolAddress(cluster), access), kDeadline);
  served.scheduler = scheduler::NewGrpcClient(Connect(SchedulerAddress(cluster), access), kDeadline);
  RunPage::Roles roles;
  roles.pool = served.pool.get();
  roles.scheduler = served.scheduler.get();
  roles.tokenizer = model.text.tokenizer;
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    served.engines.push_back(rollout::NewGrpcClient(Connect(RolloutAddress(cluster, i), access)));
    roles.engines.emplace_back(absl::StrCat("rollout-", i), served.engines.back().get());
  }
  INGOT_ASSIGN_OR_RETURN(served.page, RunPage::OfRunning(config, dir, roles));
  if (served.page != nullptr) std::printf("page %s\n", served.page->NewLink().c_str());
  return served;
}

absl::StatusOr<int> LaunchOrError(const RunArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOfLaunch(config)));
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model));
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  // Only `cuda` can fail; the roles that compute open the device again.
  if (config.device == "cuda") INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_ASSIGN_OR_RETURN(std::string binary, OwnBinary());
  INGOT_RETURN_IF_ERROR(CheckPortsFree(config));
  INGOT_RETURN_IF_ERROR(CheckRunPool(config, args.resume));
  INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, MakeRunSecrets(config));
  INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, secrets.token));
  if (!TrainerAlone(config)) INGOT_RETURN_IF_ERROR(CheckReach(DataPoolAddress(config.cluster), access));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  base::InitLogging("launch", config.log_level, dir.logs() + "/launch.log");
  for (const std::string& doubt : check.doubts) INGOT_LOG(warn, "doubt: {}", doubt);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));

  const Roles roles(config, dir, std::move(binary), std::move(secrets));
  // Printed and, where sandbox.require asks for more, refused here: the agents' role would only end again and again.
  if (roles.StartsAgents()) INGOT_RETURN_IF_ERROR(MakeAgentsSubstrate(config, dir).status());
  SupervisorOptions options;
  options.max_restarts = config.cluster.max_restarts;
  options.min_members = config.cluster.min_trainer_ranks;
  Supervisor supervisor(options);
  std::vector<RoleSpec> others = roles.Services();
  for (const RoleSpec& service : others) INGOT_RETURN_IF_ERROR(supervisor.Start(service));
  const int ranks = config.cluster.trainer_ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    INGOT_RETURN_IF_ERROR(supervisor.Start(roles.Trainer(rank, rank, ranks)));
  }
  if (roles.StartsAgents()) {
    others.push_back(roles.Agents());
    INGOT_RETURN_IF_ERROR(supervisor.Start(others.back()));
  }
  std::unique_ptr<StatusEndpoint> status;
  if (!others.empty()) {
    auto started = StatusEndpoint::Start(absl::StrCat(dir.sockets(), "/", kLaunchSocket),
                                         [&config, &access] { return AskRoles(config.cluster, access); });
    if (!started.ok()) INGOT_LOG(warn, "`ingot status` will not answer: {}", std::string(started.status().message()));
    if (started.ok()) status = *std::move(started);
  }
  const std::string asked = others.empty() ? "" : absl::StrCat("; `ingot status ", args.config, "` prints their state");
  std::printf("%s: %d processes; logs %s%s\n", config.name.c_str(), static_cast<int>(others.size()) + ranks,
              dir.logs().c_str(), asked.c_str());
  LaunchedPage page;
  std::unique_ptr<loggers::Follower> follower;
  if (!others.empty()) {
    INGOT_ASSIGN_OR_RETURN(page, ServeLaunchedPage(config, dir, access, model));
    INGOT_ASSIGN_OR_RETURN(follower, FollowRun(config, dir, loaded.schema.EffectiveYaml(), page.pool.get()));
  }
  return supervisor.Run(StopFlag(), [&](const std::string& line) {
    INGOT_LOG(info, "{}", line);
    std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
  });
}

// Why no role of the run answers, and what to do: one line.
std::string DescribeNoRun(const RunConfig& config, const std::string& file) {
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  const std::string none =
      absl::StrCat("none of the roles of run '", config.name, "' answers at ", config.cluster.host, ": ");
  const absl::StatusOr<bool> held = RunDir::IsHeld(config.root, config.name);
  if (!held.ok()) {
    return absl::StrCat(none, held.status().message(), "; `ingot launch ", file, "` starts the run");
  }
  if (!*held) {
    return absl::StrCat(none, "no process holds ", folder, "; `ingot launch ", file, " --resume` continues the run");
  }
  return absl::StrCat(
      none, "a process holds ", folder,
      ", and its roles are no processes of their own (ingot train), or are about to start; its terminal and ", folder,
      "/logs tell its state");
}

absl::StatusOr<int> StatusOrError(const RunArgs& args) {
  RunSecrets secrets;
  if (args.token_fd >= 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, ReadRunSecrets(args.token_fd));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  if (args.token_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, FindRunSecrets(config));
  }
  if (!secrets.token.empty()) {
    INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, std::move(secrets.token)));
    const std::vector<RoleStatus> roles = AskRoles(config.cluster, access);
    const auto is_silent = [](const RoleStatus& role) {
      return absl::IsUnavailable(role.state.status()) || absl::IsDeadlineExceeded(role.state.status());
    };
    if (std::all_of(roles.begin(), roles.end(), is_silent)) {
      return absl::UnavailableError(DescribeNoRun(config, args.config));
    }
    std::printf("%s", FormatRoles(roles).c_str());
    return AllAnswer(roles) ? 0 : 1;
  }
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  const absl::StatusOr<LaunchedStatus> launched = AskLauncher(absl::StrCat(folder, "/sockets/", kLaunchSocket));
  if (!launched.ok()) {
    return absl::UnavailableError(absl::StrCat(DescribeNoRun(config, args.config),
                                               "; roles that were started by hand are asked with cluster.token_file"));
  }
  std::printf("%s", launched->lines.c_str());
  return launched->all_answer ? 0 : 1;
}

}  // namespace

int Launch(const RunArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = LaunchOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

int ShowStatus(const RunArgs& args) {
  const absl::StatusOr<int> code = StatusOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
