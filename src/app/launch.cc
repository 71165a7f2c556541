// `ingot launch` and `ingot status`: every role as its own process of this machine.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "app/commands.h"
#include "app/data_files.h"
#include "app/device.h"
#include "app/grpc_server.h"
#include "app/process.h"
#include "app/resume_check.h"
#include "app/role_addresses.h"
#include "app/run_dir.h"
#include "app/supervisor.h"
#include "base/log.h"
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

// In which wave a role is ended: those that drive the run first, then whom they ask, the record of it all last.
int EndsAfter(std::string_view role) {
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

// A run without tasks is its trainer alone: supervised training asks nobody.
bool TrainerAlone(const RunConfig& config) { return config.tasks.empty(); }

// Whether each role can listen where it is to. It would find out by itself, in its own log and several times over, when
// the run has a folder already.
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
  return CheckPortFree("http.port", config.http.host, config.http.port);  // 0 is any free one
}

absl::StatusOr<int> LaunchOrError(const RunArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(CheckDataFiles(config));
  // Only `cuda` can fail; the roles that compute open it again.
  if (config.device == "cuda") INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_ASSIGN_OR_RETURN(const std::string binary, OwnBinary());
  INGOT_RETURN_IF_ERROR(CheckPortsFree(config));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  base::InitLogging("launch", config.log_level, dir.logs() + "/launch.log");
  for (const std::string& doubt : Doubts(config)) INGOT_LOG(warn, "{}", doubt);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));

  const auto role = [&](const std::string& name, int index) {
    RoleSpec spec;
    spec.name = name == "rollout" || index > 0 ? absl::StrCat(name, "-", index) : name;
    // Not the user's file, which may be another one by the time that a role is started again.
    spec.argv = {binary, name, dir.path() + "/config.yaml", "--child", absl::StrCat(getpid())};
    if (name == "rollout") {
      spec.argv.push_back("--engine");
      spec.argv.push_back(absl::StrCat(index));
    }
    spec.log_path = absl::StrCat(dir.logs(), "/", spec.name, ".log");
    spec.may_finish = name == "agents" || name == "trainer";
    spec.wave = EndsAfter(name);
    // What agents set up elsewhere is given back in that time, and what is trained is saved.
    if (name == "agents") spec.stop_grace += Milliseconds(config.agents.stop_timeout_s);
    if (name == "trainer") spec.stop_grace = Milliseconds(config.cluster.trainer_stop_s);
    return spec;
  };
  // `place` names the process, whichever rank of how many it is.
  const std::function<RoleSpec(int, int, int)> trainer = [&](int place, int rank, int ranks) {
    RoleSpec spec = role("trainer", place);
    if (config.cluster.trainer_ranks > 1) {
      spec.group = "trainer";
      for (const std::string& word : {std::string("--rank"), absl::StrCat(rank), std::string("--set"),
                                      absl::StrCat("cluster.trainer_ranks=", ranks)}) {
        spec.argv.push_back(word);
      }
      spec.renumbered = [&trainer, place](int index, int size) { return trainer(place, index, size); };
    }
    if (dir.existed()) {
      spec.argv.push_back("--resume");
    } else {
      spec.restart_extra = {"--resume"};
    }
    spec.decides = spec.inherits_stdout = rank == 0;
    return spec;
  };
  SupervisorOptions options;
  options.max_restarts = config.cluster.max_restarts;
  options.min_members = config.cluster.min_trainer_ranks;
  Supervisor supervisor(options);
  const bool starts_agents = !TrainerAlone(config) && !config.agents.recipes.empty();
  int others = 0;  // than the trainer's
  const auto start = [&](RoleSpec spec) {
    ++others;
    return supervisor.Start(std::move(spec));
  };
  if (!TrainerAlone(config)) {
    INGOT_RETURN_IF_ERROR(start(role("datapool", 0)));
    RoleSpec scheduler = role("scheduler", 0);
    scheduler.restart_extra = {"--resume"};
    INGOT_RETURN_IF_ERROR(start(std::move(scheduler)));
    for (int i = 0; i < config.cluster.rollout_engines; ++i) INGOT_RETURN_IF_ERROR(start(role("rollout", i)));
    RoleSpec gateway = role("gateway", 0);
    gateway.inherits_stdout = !starts_agents;  // it says where agents reach it
    INGOT_RETURN_IF_ERROR(start(std::move(gateway)));
  }
  for (int rank = 0; rank < config.cluster.trainer_ranks; ++rank) {
    INGOT_RETURN_IF_ERROR(supervisor.Start(trainer(rank, rank, config.cluster.trainer_ranks)));
  }
  if (starts_agents) INGOT_RETURN_IF_ERROR(start(role("agents", 0)));
  const std::string asked =
      others == 0 ? "" : absl::StrCat("; `ingot status ", args.config, "` asks them how they are");
  std::printf("%s: %d processes; logs %s%s\n", config.name.c_str(), others + config.cluster.trainer_ranks,
              dir.logs().c_str(), asked.c_str());
  return supervisor.Run(StopFlag(), [&](const std::string& line) {
    INGOT_LOG(info, "{}", line);
    std::printf("[%s] %s\n", config.name.c_str(), line.c_str());
  });
}

template <typename T, typename Format>
void PrintRole(const std::string& name, const std::string& address, const absl::StatusOr<T>& status, Format format) {
  std::printf(
      "%-10s %-22s %s\n", name.c_str(), address.c_str(),
      status.ok() ? format(*status).c_str() : ("NOT REACHED: " + std::string(status.status().message())).c_str());
}

absl::StatusOr<v1::GatewayStatusResponse> GatewayStatus(const std::string& address) {
  const auto stub = v1::Gateway::NewStub(Connect(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  v1::GatewayStatusResponse response;
  INGOT_RETURN_IF_ERROR(v1::FromGrpc(stub->Status(&context, v1::GatewayStatusRequest(), &response)));
  return response;
}

absl::StatusOr<int> StatusOrError(const RunArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const ClusterOptions& cluster = loaded.config->cluster;
  const std::chrono::milliseconds deadline(2000);
  const auto pool = datapool::NewGrpcClient(Connect(DataPoolAddress(cluster)), deadline)->Status();
  PrintRole("datapool", DataPoolAddress(cluster), pool, [](const v1::PoolStatusResponse& s) {
    return fmt::format("{} episodes, {} calls, {} tokens stored ({} recorded), journal {}", s.episodes(), s.calls(),
                       s.segment_tokens(), s.recorded_tokens(), s.journal_end());
  });
  const auto scheduler = scheduler::NewGrpcClient(Connect(SchedulerAddress(cluster)), deadline)->Status();
  PrintRole("scheduler", SchedulerAddress(cluster), scheduler, [](const v1::SchedulerStatusResponse& s) {
    return fmt::format("step {}{}, groups {}/{} from {}, {} episodes running, {} dropped, {} failed", s.next_step(),
                       s.finished() ? " (all fed)" : "", s.stats().admitted_unreleased(), s.stats().budget(),
                       s.stats().head(), s.stats().running_episodes(), s.stats().dropped(), s.stats().failed());
  });
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    ClusterOptions one = cluster;
    one.rollout_port += i;
    one.rollout_engines = 1;
    PrintRole(absl::StrCat("rollout-", i), RolloutAddress(one, 0), ConnectEngines(one)->Status(),
              [](const v1::EngineStatusResponse& s) {
                return fmt::format(
                    "version {}, {} running, {} waiting, KV {}/{} blocks, {} tokens sampled, busy {:.0f}%", s.version(),
                    s.running(), s.waiting(), s.kv_blocks_used(), s.kv_blocks_total(), s.sampled_tokens(),
                    100 * s.busy_seconds() / std::max(s.alive_seconds(), 1e-9));
              });
  }
  const auto gateway = GatewayStatus(GatewayAddress(cluster));
  PrintRole("gateway", GatewayAddress(cluster), gateway, [](const v1::GatewayStatusResponse& s) {
    int64_t forks = 0;
    for (const auto& [cause, count] : s.forks()) forks += count;
    return fmt::format("{} open episodes, {} calls ({} active, {} spliced, {} forks)", s.open_episodes(), s.calls(),
                       s.active_calls(), s.spliced_calls(), forks);
  });
  return pool.ok() && scheduler.ok() && gateway.ok() ? 0 : 1;
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
