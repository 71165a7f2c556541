#include "app/bench_sandbox.h"

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

#include "app/progress.h"
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

// A start, and its room, which is removed after the start was timed. Null: it failed.
using Started = std::shared_ptr<void>;

struct Way {
  std::string name;
  std::function<Started()> start;
  int pause_ms = 0;  // before each start: time for the pool to fill
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
        const auto from = Clock::now();
        const Started started = way.start();
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

// A bundle with a shell's `true` and the libraries that it needs, and the script that runs it. crun refuses a machine with
// groups of version 1 and 2 together, so the script hides version 2's. Empty = crun is not installed.
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

void Print(const Way& way, const std::string& rung, const SandboxBenchArgs& args, std::ostream& out) {
  std::vector<Round> rounds = way.rounds;
  std::sort(rounds.begin(), rounds.end(), [](const Round& a, const Round& b) { return a.p50_ms < b.p50_ms; });
  const Round& middle = rounds[rounds.size() / 2];
  int failed = 0;
  for (const Round& round : rounds) failed += round.failed;
  out << base::PrintJson({{"way", way.name},
                          {"rung", rung},
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

// Holds idle rooms, each with one sleeping process, and prints the memory that the machine has less.
int HoldIdle(sandbox::Substrate& substrate, int count, std::ostream& out, std::ostream& errors) {
  const int64_t before = AvailableBytes();
  const auto begin = Clock::now();
  std::vector<std::unique_ptr<sandbox::Room>> rooms;
  std::vector<std::thread> runs;
  sandbox::Cancellation cancel;
  const sandbox::Command command{.argv = {"sleep", "1000"}, .env = {}, .working_dir = "", .stdin_text = ""};
  sandbox::Limits limits;
  limits.wall_time = std::chrono::seconds(1000);
  std::atomic<int> failed{0};
  for (int i = 0; i < count; ++i) {
    auto room = substrate.Prepare();
    if (!room.ok()) {
      errors << "ingot bench sandbox: room " << i << ": " << room.status().message() << "\n";
      ++failed;
      break;
    }
    rooms.push_back(*std::move(room));
    runs.emplace_back([&, room = rooms.back().get()] {
      const auto outcome = room->Run(command, limits, &cancel);
      if (!outcome.ok() || outcome->ending != sandbox::Ending::kCancelled) ++failed;
    });
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const int64_t used = before - AvailableBytes();
  cancel.Cancel();
  for (std::thread& run : runs) run.join();
  out << base::PrintJson({{"idle_rooms", std::ssize(rooms)},
                          {"rung", std::string(sandbox::RungName(substrate.grant().rung))},
                          {"opened_in_s", seconds},
                          {"memory_bytes", used},
                          {"bytes_per_room", used / std::max<int64_t>(1, std::ssize(rooms))},
                          {"failed", failed.load()},
                          {"load", Load()}})
      << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int BenchSandbox(const SandboxBenchArgs& args, std::ostream& out, std::ostream& errors) {
  char folder[] = "/tmp/ingot-bench-XXXXXX";
  if (args.starts < 1 || args.rounds < 1 || args.threads < 1 || mkdtemp(folder) == nullptr ||
      chmod(folder, 0711) != 0) {
    errors << "ingot bench sandbox: --starts, --rounds and --threads are at least 1, and /tmp takes a folder\n";
    return 2;
  }
  const std::string root = folder;
  std::unique_ptr<sandbox::Substrate> pooled, plain;
  for (auto* const each : {&pooled, &plain}) {
    sandbox::SubstrateOptions options;
    options.work_root = root + (each == &pooled ? "/pooled" : "/plain");
    options.rung = args.rung;
    if (each == &pooled) options.pool = 16;
    auto made = sandbox::MakeSubstrate(options);
    if (!made.ok()) {
      errors << "ingot bench sandbox: " << made.status().message() << "\n";
      return 1;
    }
    *each = *std::move(made);
  }
  errors << plain->grant().Describe() << "\n";
  if (args.idle > 0) {
    pooled.reset();
    const int code = HoldIdle(*plain, args.idle, out, errors);
    plain.reset();
    std::error_code ignored;
    fs::remove_all(root, ignored);
    return code;
  }
  const sandbox::Command command{.argv = {"/bin/true"}, .env = {}, .working_dir = "", .stdin_text = ""};
  const auto fail = [&errors](const std::string& why) -> Started {
    errors << "a start failed: " << why << std::endl;
    return nullptr;
  };
  const auto run_in = [&](std::shared_ptr<sandbox::Room> room) -> Started {
    const auto outcome = room->Run(command, sandbox::Limits{}, nullptr);
    if (!outcome.ok()) return fail(outcome.status().ToString());
    return outcome->ok() ? room : fail(sandbox::Describe(*outcome, sandbox::Limits{}) + outcome->err);
  };
  const auto run_on = [&](sandbox::Substrate& substrate) -> Started {
    auto room = substrate.Prepare();
    return room.ok() ? run_in(*std::move(room)) : fail(room.status().ToString());
  };
  const auto spawn = [](std::vector<std::string> words) -> Started {
    return SpawnAndWait(std::move(words)) ? std::make_shared<int>(0) : nullptr;
  };
  std::vector<Way> ways;
  ways.push_back({"pool", [&] { return run_on(*pooled); }, kPoolPauseMs});
  ways.push_back({"room", [&] { return run_on(*plain); }});
  const auto second = [&]() -> Started {
    thread_local std::shared_ptr<sandbox::Room> room;  // ends with the thread
    if (room == nullptr) {
      auto made = plain->Prepare();
      if (!made.ok()) return fail(made.status().ToString());
      room = *std::move(made);
    }
    return run_in(room);
  };
  ways.push_back({"second", second});
  ways.push_back({"spawn", [&] { return spawn({"/bin/true"}); }});
  const std::string bundle = root + "/bundle";
  fs::create_directories(bundle);
  if (const std::string script = MakeBundle(bundle); !script.empty()) {
    auto next = std::make_shared<std::atomic<int>>(0);
    const std::string name = "ingot-bench-" + std::to_string(getpid()) + "-";
    ways.push_back(
        {"crun", [=] { return spawn({"unshare", "-m", "sh", script, bundle, name + std::to_string((*next)++)}); }});
  } else {
    errors << "crun is not installed, or makes no bundle here\n";
  }
  std::optional<Underway> measuring("bench sandbox");
  for (int round = 0; round < args.rounds; ++round) {
    for (Way& way : ways) way.rounds.push_back(Measure(way, args.starts, args.threads));
  }
  measuring.reset();
  for (const Way& way : ways) Print(way, std::string(sandbox::RungName(plain->grant().rung)), args, out);
  pooled.reset();
  plain.reset();
  std::error_code ignored;
  fs::remove_all(root, ignored);
  return 0;
}

}  // namespace ingot::app
