#include "app/run/threads.h"

#include <sys/resource.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ingot::app {
namespace {

constexpr int kLibraryThreads = 24;  // RocksDB, gRPC, libtorch, and timers
constexpr int kCallerThreads = 12;   // gRPC in a gateway, which calls three roles

int AgentsThreads(const RunConfig& config) { return config.agents.recipes.empty() ? 0 : 2 * config.agents.concurrency; }

// Returns the threads of a member's crew beyond its own, for borrowed threads.
int BorrowingThreads(const RunConfig& config, int own) {
  return config.lend_threads ? SplitCores(config).total - own : 0;
}

int FlowThreads(const gateway::GatewayOptions& gateway, const http::Options& http) {
  return gateway.worker_threads + gateway.writer_threads + http.io_threads;
}

// Returns pids.max of this process's control group; empty = no limit, or the file does not exist.
std::string GroupLimit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string root = parts[1].empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    if (!parts[1].empty() && parts[1] != "pids") continue;
    for (const std::string& path : {root + parts[2] + "/pids.max", root + "/pids.max"}) {
      std::string limit;
      if (std::ifstream(path) >> limit && limit != "max") return limit;
    }
  }
  return "";
}

}  // namespace

std::string DescribeThreadLimits() {
  std::vector<std::string> limits;
  rlimit processes{};
  if (getrlimit(RLIMIT_NPROC, &processes) == 0 && processes.rlim_cur != RLIM_INFINITY) {
    limits.push_back(absl::StrCat("ulimit -u is ", processes.rlim_cur));
  }
  if (const std::string group = GroupLimit(); !group.empty()) {
    limits.push_back(absl::StrCat("the control group's pids.max is ", group));
  }
  return limits.empty() ? "no limit is set, so memory may be short" : absl::StrJoin(limits, ", ");
}

absl::Status TooFewThreads(const std::string& what) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, "; a user's processes and threads count together (", DescribeThreadLimits(),
      "): raise the limit, or lower agents.concurrency, gateway.worker_threads, gateway.writer_threads and "
      "compute.threads"));
}

absl::Status CheckThreads(int count) {
  std::mutex mu;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::thread> threads;
  absl::Status status;
  try {
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        std::unique_lock lock(mu);
        changed.wait(lock, [&] { return over; });
      });
    }
  } catch (const std::system_error&) {
    status = TooFewThreads(
        absl::StrCat("this needs about ", count, " threads, but the system allows only ", threads.size()));
  }
  {
    const std::lock_guard lock(mu);
    over = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return status;
}

int ThreadsOf(const RunConfig& config) {
  return kLibraryThreads + AgentsThreads(config) + FlowThreads(config.gateway, config.http) +
         2 * SplitCores(config).total + BorrowingThreads(config, config.rollout.threads) +
         BorrowingThreads(config, config.trainer.threads);
}

int ThreadsOfRole(const RunConfig& config, const std::string& role) {
  const CoreBudget cores = SplitCores(config);
  if (role == "agents") return kLibraryThreads + AgentsThreads(config);
  if (role == "gateway") return kLibraryThreads + kCallerThreads + FlowThreads(config.gateway, config.http);
  if (role == "rollout") return kLibraryThreads + 2 * cores.rollout + BorrowingThreads(config, cores.rollout);
  if (role == "trainer") return kLibraryThreads + 2 * cores.total;
  return kLibraryThreads;
}

int ThreadsOfLaunch(const RunConfig& config) {
  int threads = config.cluster.trainer_ranks * ThreadsOfRole(config, "trainer");
  if (config.tasks.empty()) return threads;
  threads += config.cluster.rollout_engines * ThreadsOfRole(config, "rollout");
  threads += config.cluster.datapools * ThreadsOfRole(config, "datapool") + ThreadsOfRole(config, "scheduler") +
             config.cluster.gateways * ThreadsOfRole(config, "gateway");
  if (config.cluster.rewards_role) threads += ThreadsOfRole(config, "rewards");
  return threads + (config.agents.recipes.empty() ? 0 : ThreadsOfRole(config, "agents"));
}

int ThreadsOfServing(int engines, int threads) {
  return kLibraryThreads + FlowThreads(gateway::GatewayOptions(), http::Options()) + 2 * engines * threads;
}

}  // namespace ingot::app
