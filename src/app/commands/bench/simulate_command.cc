#include "app/commands/bench/simulate_command.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "app/record/stored_episodes.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/log.h"

namespace ingot::app {
namespace {

using scheduler::SimulationReport;
using scheduler::WindowOrder;

constexpr std::pair<const char*, WindowOrder> kOrders[] = {
    {"strict", WindowOrder::kStrict}, {"windowed", WindowOrder::kWindowed}, {"greedy", WindowOrder::kGreedy}};

// Options that are also recorded in a run.
constexpr char kGroupsPerStep[] = "--groups-per-step", kGroupSize[] = "--group-size",
               kMaxStaleness[] = "--max-staleness", kWindowFraction[] = "--window-fraction";

// Reads the scheduler's options and the durations of finished episodes from a run. Returns NOT_FOUND if no episode has
// finished.
absl::Status UseRecorded(const SimulateArgs& args, scheduler::SimulationOptions& options) {
  INGOT_ASSIGN_OR_RETURN(const StoredRun run, OpenStoredRun(args.run_dir));
  const auto use = [&args](const char* option, auto recorded, auto& value) {
    if (!args.given.contains(option)) value = recorded;
  };
  const scheduler::WindowOptions window = run.config().scheduler.window();
  use(kGroupsPerStep, window.groups_per_step, options.window.groups_per_step);
  use(kMaxStaleness, window.max_staleness, options.window.max_staleness);
  use(kWindowFraction, window.window_fraction, options.window.window_fraction);
  use(kGroupSize, run.config().scheduler.group_size, options.group_size);
  std::map<int64_t, std::vector<double>> groups;
  const auto visit = [&groups](const v1::Episode& episode) {
    if (episode.state() != v1::EPISODE_FINISHED || episode.ended_unix_ns() <= episode.opened_unix_ns()) return;
    groups[episode.ref().group_id()].push_back(static_cast<double>(episode.ended_unix_ns() - episode.opened_unix_ns()) *
                                               1e-9);
  };
  INGOT_RETURN_IF_ERROR(VisitEpisodes(*run.pool, v1::PURPOSE_TRAIN, visit));
  for (auto& [group, durations] : groups) options.durations.recorded.push_back(std::move(durations));
  if (!options.durations.recorded.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("'", args.run_dir, "' holds no finished episode of training"));
}

// Returns "0:12% 1:60% 2:28%", with at most eight ages. The last age includes all greater ones.
std::string Histogram(const SimulationReport& report) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t age = 0; age < std::min(report.ages.size(), kShown); ++age) {
    int64_t count = report.ages[age];
    const bool last = age + 1 == kShown && report.ages.size() > kShown;
    for (size_t older = age + 1; last && older < report.ages.size(); ++older) count += report.ages[older];
    absl::StrAppend(&text, text.empty() ? "" : " ", age, last ? "+" : "", ":",
                    fmt::format("{:.1f}%", 100.0 * static_cast<double>(count) / static_cast<double>(report.groups)));
  }
  return text;
}

absl::Status SimulateOrError(const SimulateArgs& args) {
  scheduler::SimulationOptions options = args.options;
  if (!args.run_dir.empty()) {
    const Underway reading("simulate: reading " + args.run_dir);
    INGOT_RETURN_IF_ERROR(UseRecorded(args, options));
  }
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (!args.json) {
    std::printf(
        "%lld steps of %lld groups of %lld, %d workers, S %lld, seed %llu\n%-9s %12s %7s %8s %8s %7s %8s %8s %8s  %s\n",
        static_cast<long long>(options.steps), static_cast<long long>(options.window.groups_per_step),
        static_cast<long long>(options.group_size), options.workers,
        static_cast<long long>(options.window.max_staleness), static_cast<unsigned long long>(options.seed), "order",
        "episodes/h", "idle", "trainer", "mean age", "KL", "early KL", "noise", "unused", "ages of trained groups");
  }
  for (const auto& [name, order] : kOrders) {
    if (!args.orders.empty() && std::find(args.orders.begin(), args.orders.end(), name) == args.orders.end()) continue;
    options.window.order = order;
    absl::StatusOr<SimulationReport> simulated = [&options, order_name = std::string(name)] {
      const Underway simulating("simulate: " + order_name);
      return scheduler::Simulate(options);
    }();
    INGOT_ASSIGN_OR_RETURN(const SimulationReport report, std::move(simulated));
    if (args.json) {
      std::printf("%s\n", SimulationJson(name, report).c_str());
      continue;
    }
    std::printf("%-9s %12.1f %6.1f%% %7.1f%% %8.2f %7.3f %8.3f %8.3f %7.1f%%  %s\n", name, report.episodes_per_hour,
                100 * report.worker_idle, 100 * report.trainer_idle, report.mean_age, report.batch_kl, report.early_kl,
                report.noise_kl, 100 * report.unused_work, Histogram(report).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

std::string SimulationJson(const std::string& order, const SimulationReport& report) {
  namespace json = base::json;
  json::array ages(report.ages.begin(), report.ages.end());
  return base::PrintJson(json::object{{"order", order},
                                      {"seconds", report.seconds},
                                      {"groups", report.groups},
                                      {"episodes_per_hour", report.episodes_per_hour},
                                      {"worker_idle", report.worker_idle},
                                      {"trainer_idle", report.trainer_idle},
                                      {"ages", std::move(ages)},
                                      {"mean_age", report.mean_age},
                                      {"batch_kl", report.batch_kl},
                                      {"early_kl", report.early_kl},
                                      {"noise_kl", report.noise_kl},
                                      {"dropped_work", report.dropped_work},
                                      {"unused_work", report.unused_work}});
}

int RunSimulate(const SimulateArgs& args) {
  const absl::Status done = SimulateOrError(args);
  return done.ok() ? 0 : Fail(done);
}

}  // namespace ingot::app
