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
using SharedRoom = std::shared_ptr<sandbox::Room>;

struct Way {
  std::string name;
  std::function<Started(const SharedRoom& prepared)> start;
  int pause_ms = 0;                          // before each start: time for the pool to fill
  std::function<SharedRoom()> prepare = {};  // before each start, and not timed
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
        const SharedRoom prepared = way.prepare ? way.prepare() : nullptr;
        const auto from = Clock::now();
        const Started started = way.start(prepared);
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

// The ways of starting a command that ends at once, on substrates with and without a pool.
class Ways {
 public:
  Ways(sandbox::Substrate& pooled, sandbox::Substrate& plain, std::ostream& errors)
      : pooled_(pooled), plain_(plain), errors_(errors) {}

  // FAILED_PRECONDITION: the machine gives no room whose files could be forked.
  absl::StatusOr<std::vector<Way>> Make(const std::string& folder) {
    INGOT_RETURN_IF_ERROR(MakeTrunk());
    std::vector<Way> ways;
    AddRooms(ways);
    AddForks(ways);
    ways.push_back({"spawn", [](const SharedRoom&) { return Spawned({"/bin/true"}); }});
    AddOthers(folder, ways);
    return ways;
  }

 private:
  Started Fail(const std::string& why) const {
    errors_ << "a start failed: " << why << std::endl;
    return nullptr;
  }
  static Started Spawned(std::vector<std::string> words) {
    return SpawnAndWait(std::move(words)) ? std::make_shared<int>(0) : nullptr;
  }
  Started RunIn(SharedRoom room) const {
    const auto outcome = room->Run(True(), sandbox::Limits{}, nullptr);
    if (!outcome.ok()) return Fail(outcome.status().ToString());
    return outcome->ok() ? room : Fail(sandbox::Describe(*outcome, sandbox::Limits{}) + outcome->err);
  }
  Started RunOn(sandbox::Substrate& substrate, const sandbox::RoomOptions& wish = {}) const {
    auto room = substrate.Prepare(wish);
    return room.ok() ? RunIn(*std::move(room)) : Fail(room.status().ToString());
  }
  static sandbox::Command True() { return {.argv = {"/bin/true"}, .env = {}, .working_dir = "", .stdin_text = ""}; }

  void AddRooms(std::vector<Way>& ways) {
    ways.push_back({"pool", [this](const SharedRoom&) { return RunOn(pooled_); }, kPoolPauseMs});
    ways.push_back({"pool, at full rate", [this](const SharedRoom&) { return RunOn(pooled_); }});
    ways.push_back({"room", [this](const SharedRoom&) { return RunOn(plain_); }});
    if (plain_.grant().root_folder) {
      sandbox::RoomOptions bound;
      bound.binds = {{"work", "/app"}};
      ways.push_back({"pool, work_at", [=, this](const SharedRoom&) { return RunOn(pooled_, bound); }, kPoolPauseMs});
      ways.push_back({"room, work_at", [=, this](const SharedRoom&) { return RunOn(plain_, bound); }});
    }
    const auto second = [this](const SharedRoom&) -> Started {
      thread_local SharedRoom room;  // ends with the thread
      if (room == nullptr) {
        auto made = plain_.Prepare();
        if (!made.ok()) return Fail(made.status().ToString());
        room = *std::move(made);
      }
      return RunIn(room);
    };
    ways.push_back({"second", second});
  }

  // A room with some files, and a snapshot of them.
  absl::Status MakeTrunk() {
    sandbox::RoomOptions wish;
    wish.takes_snapshots = true;
    INGOT_ASSIGN_OR_RETURN(const auto room, plain_.Prepare(wish));
    const std::string script = "for i in $(seq 1000); do head -c 16384 /dev/zero > f$i || exit 1; done";
    const sandbox::Command command{.argv = {"/bin/sh", "-c", script},
                                   .env = {{"PATH", "/usr/bin:/bin"}},
                                   .working_dir = room->work(),
                                   .stdin_text = ""};
    INGOT_ASSIGN_OR_RETURN(const auto outcome, room->Run(command, sandbox::Limits{}, nullptr));
    if (!outcome.ok()) return absl::FailedPreconditionError("a room takes no files: " + outcome.err);
    INGOT_ASSIGN_OR_RETURN(trunk_.from, room->TakeSnapshot());
    return absl::OkStatus();
  }

  void AddForks(std::vector<Way>& ways) {
    const auto fork = [this]() -> SharedRoom {
      auto room = plain_.Prepare(trunk_);
      if (!room.ok() || !(*room)->WriteFile("new", "a change").ok()) return nullptr;
      return *std::move(room);
    };
    const auto keep = [this](const SharedRoom& room) -> Started {
      if (room == nullptr) return Fail("a fork for a snapshot");
      auto taken = room->TakeSnapshot();
      return taken.ok() ? std::make_shared<std::shared_ptr<const sandbox::Snapshot>>(*taken)
                        : Fail(taken.status().ToString());
    };
    ways.push_back({"snapshot", keep, 0, fork});
    ways.push_back({"fork", [this](const SharedRoom&) { return RunOn(plain_, trunk_); }});
  }

  void AddOthers(const std::string& folder, std::vector<Way>& ways) const {
    if (SpawnAndWait({"sh", "-c", "command -v bwrap >/dev/null"})) {
      ways.push_back({"bubblewrap", [](const SharedRoom&) {
                        return Spawned({"bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-all",
                                        "--die-with-parent", "/bin/true"});
                      }});
    } else {
      errors_ << "bubblewrap is not installed\n";
    }
    if (const std::string script = MakeBundle(folder); !script.empty()) {
      auto next = std::make_shared<std::atomic<int>>(0);
      const std::string name = "ingot-bench-" + std::to_string(getpid()) + "-";
      ways.push_back({"crun", [=](const SharedRoom&) {
                        return Spawned({"unshare", "-m", "sh", script, folder, name + std::to_string((*next)++)});
                      }});
    } else {
      errors_ << "crun is not installed, or makes no bundle here\n";
    }
  }

  sandbox::Substrate& pooled_;
  sandbox::Substrate& plain_;
  std::ostream& errors_;
  sandbox::RoomOptions trunk_;  // of a fork
};

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
      for (const Way& way : *ways) Print(way, std::string(sandbox::RungName(plain->grant().rung)), args, out);
    }
  }
  pooled.reset();
  plain.reset();
  std::error_code ignored;
  fs::remove_all(root, ignored);
  return code;
}

}  // namespace ingot::app
