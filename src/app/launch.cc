// `ingot launch` and `ingot status`: every role as its own process of this machine.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "app/agents_substrate.h"
#include "app/commands.h"
#include "app/device.h"
#include "app/grpc_server.h"
#include "app/model_setup.h"
#include "app/process.h"
#include "app/resume_check.h"
#include "app/role_addresses.h"
#include "app/run_dir.h"
#include "app/start_check.h"
#include "app/supervisor.h"
#include "app/threads.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"
#include "datapool/grpc_client.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"
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

absl::Status CheckPortFree(const std::string& key, const std::string& host, int port) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  const int unknown = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &wanted, &found);
  if (unknown != 0) return absl::InvalidArgumentError(absl::StrCat(key, ": '", host, "': ", gai_strerror(unknown)));
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // as the servers do
  const int error = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(key, ": cannot listen on ", host, ":", port, ": ", std::strerror(error)));
}

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
  Roles(const RunConfig& config, const RunDir& dir, std::string binary)
      : config_(config), dir_(dir), binary_(std::move(binary)) {
    // Agents that the run starts open no episodes: their runner does.
    if (StartsAgents()) opening_environment_.push_back(absl::StrCat(kAdminKeyVariable, "=", base::RandomHex(24)));
  }

  bool StartsAgents() const { return !TrainerAlone(config_) && !config_.agents.recipes.empty(); }

  // The roles that serve the trainer, without the agents.
  std::vector<RoleSpec> Services() const {
    std::vector<RoleSpec> roles;
    if (TrainerAlone(config_)) return roles;
    roles.push_back(Role("datapool", 0));
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
    spec.argv = {binary_, name, dir_.path() + "/config.yaml", "--child", absl::StrCat(getpid())};
    if (name == "rollout") {
      spec.argv.push_back("--engine");
      spec.argv.push_back(absl::StrCat(index));
    }
    spec.log_path = absl::StrCat(dir_.logs(), "/", spec.name, ".log");
    spec.may_finish = name == "agents" || name == "trainer";
    spec.wave = StopWaveOf(name);
    if (name == "agents" || name == "gateway") spec.environment = opening_environment_;
    // Time to clean up the agents' folders, and to save the trained weights.
    if (name == "agents") spec.stop_grace += Milliseconds(config_.agents.stop_timeout_s);
    if (name == "trainer") spec.stop_grace = Milliseconds(config_.cluster.trainer_stop_s);
    return spec;
  }

  const RunConfig& config_;
  const RunDir& dir_;
  const std::string binary_;
  std::vector<std::string> opening_environment_;
};

absl::StatusOr<int> LaunchOrError(const RunArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model));
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  // Only `cuda` can fail; the roles that compute open the device again.
  if (config.device == "cuda") INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_ASSIGN_OR_RETURN(std::string binary, OwnBinary());
  INGOT_RETURN_IF_ERROR(CheckPortsFree(config));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  base::InitLogging("launch", config.log_level, dir.logs() + "/launch.log");
  for (const std::string& doubt : check.doubts) INGOT_LOG(warn, "doubt: {}", doubt);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));

  const Roles roles(config, dir, std::move(binary));
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
  const std::string asked = others.empty() ? "" : absl::StrCat("; `ingot status ", args.config, "` prints their state");
  std::printf("%s: %d processes; logs %s%s\n", config.name.c_str(), static_cast<int>(others.size()) + ranks,
              dir.logs().c_str(), asked.c_str());
  return supervisor.Run(StopFlag(), [&](const std::string& line) {
    INGOT_LOG(info, "{}", line);
    std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
  });
}

absl::StatusOr<v1::GatewayStatusResponse> GatewayStatus(const std::string& address) {
  const auto stub = v1::Gateway::NewStub(Connect(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  v1::GatewayStatusResponse response;
  INGOT_RETURN_IF_ERROR(v1::FromGrpc(stub->Status(&context, v1::GatewayStatusRequest(), &response)));
  return response;
}

// One role's line of `ingot status`.
struct RoleStatus {
  std::string name, address;
  absl::StatusOr<std::string> state;
};

template <typename T, typename Format>
RoleStatus StateOf(std::string name, std::string address, const absl::StatusOr<T>& status, Format format) {
  if (!status.ok()) return {std::move(name), std::move(address), status.status()};
  return {std::move(name), std::move(address), format(*status)};
}

std::vector<RoleStatus> AskRoles(const ClusterOptions& cluster) {
  const std::chrono::milliseconds deadline(2000);
  std::vector<RoleStatus> roles;
  roles.push_back(StateOf("datapool", DataPoolAddress(cluster),
                          datapool::NewGrpcClient(Connect(DataPoolAddress(cluster)), deadline)->Status(),
                          [](const v1::PoolStatusResponse& s) {
                            return fmt::format("{} episodes, {} calls, {} tokens stored ({} recorded), journal {}",
                                               s.episodes(), s.calls(), s.segment_tokens(), s.recorded_tokens(),
                                               s.journal_end());
                          }));
  roles.push_back(StateOf(
      "scheduler", SchedulerAddress(cluster),
      scheduler::NewGrpcClient(Connect(SchedulerAddress(cluster)), deadline)->Status(),
      [](const v1::SchedulerStatusResponse& s) {
        return fmt::format("step {}{}, groups {}/{} from {}, {} episodes running, {} dropped, {} failed", s.next_step(),
                           s.finished() ? " (all fed)" : "", s.stats().admitted_unreleased(), s.stats().budget(),
                           s.stats().head(), s.stats().running_episodes(), s.stats().dropped(), s.stats().failed());
      }));
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    ClusterOptions one = cluster;
    one.rollout_port += i;
    one.rollout_engines = 1;
    roles.push_back(StateOf(
        absl::StrCat("rollout-", i), RolloutAddress(one, 0), ConnectEngines(one)->Status(),
        [](const v1::EngineStatusResponse& s) {
          return fmt::format("version {}, {} running, {} waiting, KV {}/{} blocks, {} tokens sampled, busy {:.0f}%",
                             s.version(), s.running(), s.waiting(), s.kv_blocks_used(), s.kv_blocks_total(),
                             s.sampled_tokens(), 100 * s.busy_seconds() / std::max(s.alive_seconds(), 1e-9));
        }));
  }
  roles.push_back(StateOf("gateway", GatewayAddress(cluster), GatewayStatus(GatewayAddress(cluster)),
                          [](const v1::GatewayStatusResponse& s) {
                            int64_t forks = 0;
                            for (const auto& [cause, count] : s.forks()) forks += count;
                            return fmt::format("{} open episodes, {} calls ({} active, {} spliced, {} forks)",
                                               s.open_episodes(), s.calls(), s.active_calls(), s.spliced_calls(),
                                               forks);
                          }));
  return roles;
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
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const std::vector<RoleStatus> roles = AskRoles(loaded.config->cluster);
  const auto answers = [](const RoleStatus& role) { return role.state.ok(); };
  if (std::none_of(roles.begin(), roles.end(), answers)) {
    return absl::UnavailableError(DescribeNoRun(*loaded.config, args.config));
  }
  for (const RoleStatus& role : roles) {
    const std::string state =
        role.state.ok() ? *role.state
                        : absl::StrCat("NOT REACHED: ", base::Printable(std::string(role.state.status().message())));
    std::printf("%-10s %-22s %s\n", role.name.c_str(), role.address.c_str(), state.c_str());
  }
  return std::all_of(roles.begin(), roles.end(), answers) ? 0 : 1;
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
