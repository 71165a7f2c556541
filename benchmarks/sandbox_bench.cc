// Starts of agents in sandboxes: CPU time, rate and latency of one command that ends at once, by isolation level.
//
//   sandbox_bench [starts per line, default 400]
//
// Each line prepares a sandbox, runs /bin/true in it and removes it, as often as asked, by 1, 2 or 24 threads. CPU is
// of all processes: this one, the launcher, the sandboxes' first processes, and /bin/true itself. `posix_spawn` is the
// least that a start can cost; it has no sandbox. Isolation levels that this machine does not allow are left out.
//
// `ingot bench sandbox` measures the stronger isolation levels. Not measured: programs that do work; a machine that is
// busy with other work.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sandbox/local_substrate.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace ingot;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double CpuSeconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(static_cast<__rusage_who_t>(who), &usage);
    sum += Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  return sum;
}

// Calls `start` `count` times by `threads` threads. `end`: after it, the CPU time of all processes has been counted.
void Measure(const std::string& name, int threads, int count, const std::function<bool()>& start,
             const std::function<void()>& end) {
  std::atomic<int> next{0}, failed{0};
  std::vector<double> latencies(static_cast<size_t>(count));
  const double cpu = CpuSeconds();
  const auto begin = Clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      for (int i; (i = next++) < count;) {
        const auto from = Clock::now();
        if (!start()) ++failed;
        latencies[static_cast<size_t>(i)] = std::chrono::duration<double, std::milli>(Clock::now() - from).count();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  end();
  std::sort(latencies.begin(), latencies.end());
  std::printf("%-42s %7d %9.2f %9.0f %9.2f %9.2f%s\n", name.c_str(), threads, 1e3 * (CpuSeconds() - cpu) / count,
              count / wall, latencies[latencies.size() / 2], latencies[latencies.size() * 99 / 100],
              failed > 0 ? "  FAILED" : "");
}

bool SpawnTrue() {
  char name[] = "/bin/true";
  char* const argv[] = {name, nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, name, nullptr, nullptr, argv, environ) != 0) return false;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

struct Strength {
  const char* name;
  uint32_t rejected;
  uint32_t wanted;
};

uint32_t Probed(const sandbox::ProbeResult& probe_result) {
  return (probe_result.own_uid ? sandbox::kOwnUid : 0u) | (probe_result.pid_namespace ? sandbox::kPidNamespace : 0u) |
         (probe_result.user_namespace ? sandbox::kUserNamespace : 0u);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 400;
  char folder[] = "/tmp/ingot-sandbox-bench-XXXXXX";
  if (count <= 0 || mkdtemp(folder) == nullptr || chmod(folder, 0711) != 0) return 1;  // sandboxes pass it
  std::printf("%-42s %7s %9s %9s %9s %9s\n", "", "threads", "CPU ms", "starts/s", "p50 ms", "p99 ms");
  for (const int threads : {1, 2, 24}) Measure("posix_spawn", threads, count, SpawnTrue, [] {});
  constexpr uint32_t kNamespaces = sandbox::kPidNamespace | sandbox::kMountNamespace;
  const Strength strengths[] = {
      {"uid per sandbox, PID and mount namespaces", 0, sandbox::kOwnUid | sandbox::kPidNamespace},
      {"uid per sandbox", kNamespaces, sandbox::kOwnUid},
      {"user, PID and mount namespaces", sandbox::kOwnUid, sandbox::kUserNamespace | sandbox::kPidNamespace},
      {"shared uid, PID and mount namespaces", sandbox::kOwnUid, sandbox::kPidNamespace},
      {"shared uid", sandbox::kOwnUid | kNamespaces, 0}};
  for (const Strength& strength : strengths) {
    for (const int threads : {1, 2, 24}) {
      sandbox::SubstrateOptions options;
      options.work_root = std::string(folder) + "/work";
      options.isolation = "process";
      auto substrate = sandbox::LocalSubstrate::Make(options, strength.rejected);
      if (!substrate.ok() || Probed((*substrate)->probe_result()) != strength.wanted) continue;
      const sandbox::Command command{
          .argv = {"/bin/true"}, .env = {{"PATH", "/usr/bin:/bin"}}, .working_dir = "", .stdin_text = ""};
      Measure(
          strength.name, threads, count,
          [&] {
            auto sandbox = (*substrate)->Prepare();
            if (!sandbox.ok()) return false;
            const auto outcome = (*sandbox)->Run(command, sandbox::Limits{}, nullptr);
            return outcome.ok() && outcome->ok();
          },
          [&] { substrate->reset(); });  // the launcher ends, and its children's time is counted with its own
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
