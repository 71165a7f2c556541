#include "app/commands/bench/bench_sandbox.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>
#include <vector>

#include "app/terminal/progress.h"
#include "base/json.h"
#include "sandbox/spawn.h"
#include "sandbox/substrate.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kPoolPauseMs = 40;

struct Round {
  double p50_ms = 0, p99_ms = 0, starts_per_s = 0;
  int failed = 0;
};

// A started command with its sandbox, which is removed after the start has been timed. Null = it failed.
using StartedPart = std::shared_ptr<void>;
using SharedSandbox = std::shared_ptr<sandbox::Sandbox>;

struct Way {
  std::string name;
  std::function<StartedPart(const SharedSandbox& prepared)> start;
  int pause_ms = 0;                             // before each start, so that the pool can refill
  std::function<SharedSandbox()> prepare = {};  // called before each start, and not timed
  std::vector<Round> rounds = {};
};

Round Measure(const Way& way, int count, int threads) {
  std::atomic<int> next{0}, failed{0};
  std::vector<double> latencies(static_cast<size_t>(count));
  const auto begin = Clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      for (int i; (i = next++) < count;) {
        if (way.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(way.pause_ms));
        const SharedSandbox prepared = way.prepare ? way.prepare() : nullptr;
        const auto from = Clock::now();
        const StartedPart started = way.start(prepared);
        if (started == nullptr) ++failed;
        latencies[static_cast<size_t>(i)] = std::chrono::duration<double, std::milli>(Clock::now() - from).count();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(latencies.begin(), latencies.end());
  return {latencies[latencies.size() / 2], latencies[latencies.size() * 99 / 100], count / seconds, failed};
}

bool SpawnAndWait(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return false;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status == 0;
}

// Creates a bundle with a shell, `true`, and the libraries that they need, and the script that runs it. crun rejects
// machines with both cgroup versions, so the script hides version 2. Empty = crun is not installed.
std::string MakeBundle(const std::string& folder) {
  std::ofstream(folder + "/make.sh") << R"(set -e
command -v crun >/dev/null
cd "$1"; mkdir -p rootfs/bin rootfs/proc
cp /bin/true rootfs/bin/
for lib in $(ldd /bin/true | grep -o '/[^ ]*'); do mkdir -p rootfs$(dirname $lib); cp -L $lib rootfs$lib; done
crun spec >/dev/null 2>&1
sed -i 's/"terminal": true/"terminal": false/; s#"sh"#"/bin/true"#' config.json
cat > run.sh <<'RUN'
umount /sys/fs/cgroup/unified 2>/dev/null
exec crun --cgroup-manager=cgroupfs run --bundle "$1" "$2"
RUN
)";
  const std::string quiet = "exec sh " + folder + "/make.sh " + folder + " >/dev/null 2>&1";
  return SpawnAndWait({"sh", "-c", quiet}) ? folder + "/run.sh" : "";
}

std::string Load() {
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

void Print(const Way& way, const std::string& isolation, const SandboxBenchArgs& args, std::ostream& out) {
  std::vector<Round> rounds = way.rounds;
  std::sort(rounds.begin(), rounds.end(), [](const Round& a, const Round& b) { return a.p50_ms < b.p50_ms; });
  const Round& middle = rounds[rounds.size() / 2];
  int failed = 0;
  for (const Round& round : rounds) failed += round.failed;
  out << base::PrintJson({{"way", way.name},
                          {"isolation", isolation},
                          {"threads", args.threads},
                          {"p50_ms", middle.p50_ms},
                          {"p99_ms", middle.p99_ms},
                          {"starts_per_s", middle.starts_per_s},
                          {"failed", failed},
                          {"load", Load()}})
      << std::endl;
}

int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

// Keeps idle sandboxes open, each with one sleeping process, and prints how much of the machine's memory they use.
int HoldIdle(sandbox::Substrate& substrate, int count, std::ostream& out, std::ostream& errors) {
  const int64_t before = AvailableBytes();
  const auto begin = Clock::now();
  std::vector<std::unique_ptr<sandbox::Sandbox>> sandboxes;
  std::vector<std::thread> runs;
  sandbox::Cancellation cancel;
  const sandbox::Command command{.argv = {"sleep", "1000"}, .env = {}, .working_dir = "", .stdin_text = ""};
  sandbox::Limits limits;
  limits.wall_time = std::chrono::seconds(1000);
  std::atomic<int> failed{0};
  for (int i = 0; i < count; ++i) {
    auto sandbox = substrate.Prepare();
    if (!sandbox.ok()) {
      errors << "ingot bench sandbox: sandbox " << i << ": " << sandbox.status().message() << "\n";
      ++failed;
      break;
    }
    sandboxes.push_back(*std::move(sandbox));
    runs.emplace_back([&, sandbox = sandboxes.back().get()] {
      const auto outcome = sandbox->Run(command, limits, &cancel);
      if (!outcome.ok() || outcome->ending != sandbox::Ending::kCancelled) ++failed;
    });
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const int64_t used = before - AvailableBytes();
  cancel.Cancel();
  for (std::thread& run : runs) run.join();
  out << base::PrintJson({{"idle_sandboxes", std::ssize(sandboxes)},
                          {"isolation", std::string(sandbox::IsolationLevelName(substrate.probe_result().isolation))},
                          {"opened_in_s", seconds},
                          {"memory_bytes", used},
                          {"bytes_per_sandbox", used / std::max<int64_t>(1, std::ssize(sandboxes))},
                          {"failed", failed.load()},
                          {"load", Load()}})
      << std::endl;
  return failed == 0 ? 0 : 1;
}

// The ways to start a command that ends immediately, on substrates with and without a pool.
class Ways {
 public:
  Ways(sandbox::Substrate& pooled, sandbox::Substrate& plain, std::ostream& errors)
      : pooled_(pooled), plain_(plain), errors_(errors) {}

  // Returns FAILED_PRECONDITION if the machine cannot create a sandbox whose files can be forked.
  absl::StatusOr<std::vector<Way>> Make(const std::string& folder) {
    INGOT_RETURN_IF_ERROR(MakeTrunk());
    std::vector<Way> ways;
    AddSandboxes(ways);
    AddForks(ways);
    ways.push_back({"spawn", [](const SharedSandbox&) { return Spawned({"/bin/true"}); }});
    AddOthers(folder, ways);
    return ways;
  }

 private:
  StartedPart Fail(const std::string& why) const {
    errors_ << "a start failed: " << why << std::endl;
    return nullptr;
  }
  static StartedPart Spawned(std::vector<std::string> words) {
    return SpawnAndWait(std::move(words)) ? std::make_shared<int>(0) : nullptr;
  }
  StartedPart RunIn(SharedSandbox sandbox) const {
    const auto outcome = sandbox->Run(True(), sandbox::Limits{}, nullptr);
    if (!outcome.ok()) return Fail(outcome.status().ToString());
    return outcome->ok() ? sandbox : Fail(sandbox::Describe(*outcome, sandbox::Limits{}) + outcome->err);
  }
  StartedPart RunOn(sandbox::Substrate& substrate, const sandbox::SandboxOptions& wish = {}) const {
    auto sandbox = substrate.Prepare(wish);
    return sandbox.ok() ? RunIn(*std::move(sandbox)) : Fail(sandbox.status().ToString());
  }
  static sandbox::Command True() { return {.argv = {"/bin/true"}, .env = {}, .working_dir = "", .stdin_text = ""}; }

  void AddSandboxes(std::vector<Way>& ways) {
    ways.push_back({"pool", [this](const SharedSandbox&) { return RunOn(pooled_); }, kPoolPauseMs});
    ways.push_back({"pool, at full rate", [this](const SharedSandbox&) { return RunOn(pooled_); }});
    ways.push_back({"sandbox", [this](const SharedSandbox&) { return RunOn(plain_); }});
    if (plain_.probe_result().root_folder) {
      sandbox::SandboxOptions bound;
      bound.binds = {{"work", "/app"}};
      ways.push_back(
          {"pool, work_at", [=, this](const SharedSandbox&) { return RunOn(pooled_, bound); }, kPoolPauseMs});
      ways.push_back({"sandbox, work_at", [=, this](const SharedSandbox&) { return RunOn(plain_, bound); }});
    }
    const auto second = [this](const SharedSandbox&) -> StartedPart {
      thread_local SharedSandbox sandbox;  // destroyed with the thread
      if (sandbox == nullptr) {
        auto made = plain_.Prepare();
        if (!made.ok()) return Fail(made.status().ToString());
        sandbox = *std::move(made);
      }
      return RunIn(sandbox);
    };
    ways.push_back({"second", second});
  }

  // Creates a sandbox with some files, and takes a snapshot of them.
  absl::Status MakeTrunk() {
    sandbox::SandboxOptions wish;
    wish.takes_snapshots = true;
    INGOT_ASSIGN_OR_RETURN(const auto sandbox, plain_.Prepare(wish));
    const std::string script = "for i in $(seq 1000); do head -c 16384 /dev/zero > f$i || exit 1; done";
    const sandbox::Command command{.argv = {"/bin/sh", "-c", script},
                                   .env = {{"PATH", "/usr/bin:/bin"}},
                                   .working_dir = sandbox->work(),
                                   .stdin_text = ""};
    INGOT_ASSIGN_OR_RETURN(const auto outcome, sandbox->Run(command, sandbox::Limits{}, nullptr));
    if (!outcome.ok()) return absl::FailedPreconditionError("cannot write files into a sandbox: " + outcome.err);
    INGOT_ASSIGN_OR_RETURN(trunk_.from, sandbox->TakeSnapshot());
    return absl::OkStatus();
  }

  void AddForks(std::vector<Way>& ways) {
    const auto fork = [this]() -> SharedSandbox {
      auto sandbox = plain_.Prepare(trunk_);
      if (!sandbox.ok() || !(*sandbox)->WriteFile("new", "a change").ok()) return nullptr;
      return *std::move(sandbox);
    };
    const auto keep = [this](const SharedSandbox& sandbox) -> StartedPart {
      if (sandbox == nullptr) return Fail("a fork for a snapshot");
      auto taken = sandbox->TakeSnapshot();
      return taken.ok() ? std::make_shared<std::shared_ptr<const sandbox::Snapshot>>(*taken)
                        : Fail(taken.status().ToString());
    };
    ways.push_back({"snapshot", keep, 0, fork});
    ways.push_back({"fork", [this](const SharedSandbox&) { return RunOn(plain_, trunk_); }});
  }

  void AddOthers(const std::string& folder, std::vector<Way>& ways) const {
    if (SpawnAndWait({"sh", "-c", "command -v bwrap >/dev/null"})) {
      ways.push_back({"bubblewrap", [](const SharedSandbox&) {
                        return Spawned({"bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-all",
                                        "--die-with-parent", "/bin/true"});
                      }});
    } else {
      errors_ << "bubblewrap is not installed\n";
    }
    if (const std::string script = MakeBundle(folder); !script.empty()) {
      auto next = std::make_shared<std::atomic<int>>(0);
      const std::string name = "ingot-bench-" + std::to_string(getpid()) + "-";
      ways.push_back({"crun", [=](const SharedSandbox&) {
                        return Spawned({"unshare", "-m", "sh", script, folder, name + std::to_string((*next)++)});
                      }});
    } else {
      errors_ << "crun is not installed, or cannot make a bundle here\n";
    }
  }

  sandbox::Substrate& pooled_;
  sandbox::Substrate& plain_;
  std::ostream& errors_;
  sandbox::SandboxOptions trunk_;  // options for a fork
};

}  // namespace

int BenchSandbox(const SandboxBenchArgs& args, std::ostream& out, std::ostream& errors) {
  char folder[] = "/tmp/ingot-bench-XXXXXX";
  if (args.starts < 1 || args.rounds < 1 || args.threads < 1 || mkdtemp(folder) == nullptr ||
      chmod(folder, 0711) != 0) {
    errors << "ingot bench sandbox: --starts, --repeat and --threads must be at least 1, and /tmp writable\n";
    return 2;
  }
  const std::string root = folder;
  std::unique_ptr<sandbox::Substrate> pooled, plain;
  for (auto* const each : {&pooled, &plain}) {
    sandbox::SubstrateOptions options;
    options.work_root = root + (each == &pooled ? "/pooled" : "/plain");
    options.isolation = args.isolation;
    if (each == &pooled) options.pool = 16;
    auto made = sandbox::MakeSubstrate(options);
    if (!made.ok()) {
      errors << "ingot bench sandbox: " << made.status().message() << "\n";
      return 1;
    }
    *each = *std::move(made);
  }
  errors << plain->probe_result().Describe() << "\n";
  if (args.idle > 0) {
    pooled.reset();
    const int code = HoldIdle(*plain, args.idle, out, errors);
    plain.reset();
    std::error_code ignored;
    fs::remove_all(root, ignored);
    return code;
  }
  const std::string bundle = root + "/bundle";
  fs::create_directories(bundle);
  int code = 0;
  {
    Ways starts(*pooled, *plain, errors);  // holds a snapshot of `plain`
    auto ways = starts.Make(bundle);
    if (!ways.ok()) errors << "ingot bench sandbox: " << ways.status().message() << "\n";
    code = ways.ok() ? 0 : 1;
    std::optional<Underway> measuring("bench sandbox");
    for (int round = 0; ways.ok() && round < args.rounds; ++round) {
      for (Way& way : *ways) way.rounds.push_back(Measure(way, args.starts, args.threads));
    }
    measuring.reset();
    if (ways.ok()) {
      for (const Way& way : *ways)
        Print(way, std::string(sandbox::IsolationLevelName(plain->probe_result().isolation)), args, out);
    }
  }
  pooled.reset();
  plain.reset();
  std::error_code ignored;
  fs::remove_all(root, ignored);
  return code;
}

}  // namespace ingot::app
