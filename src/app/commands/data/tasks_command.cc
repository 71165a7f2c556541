// `ingot tasks rate` and `ingot tasks filter`: measure tasks from the attempts in a pool, and select the ones to train
// on.
#include "app/commands/data/tasks_command.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "app/record/stored_groups.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "dataset/jsonl.h"
#include "dataset/task_filter.h"
#include "dataset/tasks.h"

namespace ingot::app {
namespace {

using base::json::object;
using base::json::value;
using dataset::TaskTries;

struct PoolTries {
  std::map<std::string, TaskTries> tries;  // by task id
  std::vector<v1::Task> tasks;             // distinct, in group order
  float temperature = 0;                   // maximum over all calls
};

// Returns the outcomes of a pool's finished episodes. `most` is the number of samples per task to count, by sample
// index; 0 = all.
absl::StatusOr<PoolTries> TriesIn(const std::string& run_dir, double above, int64_t most) {
  Progress progress("tasks");
  progress.Show("reading the run");
  INGOT_ASSIGN_OR_RETURN(const StoredRun run, OpenStoredRun(run_dir));
  PoolTries rated;
  INGOT_RETURN_IF_ERROR(VisitGroups(*run.pool, progress, [&](const v1::Group& group) {
    for (const v1::EpisodeTree& tree : group.episodes()) {
      const v1::Episode& episode = tree.episode();
      if (episode.state() != v1::EPISODE_FINISHED) continue;
      const auto [tries, first] = rated.tries.try_emplace(episode.task().task_id());
      if (first) rated.tasks.push_back(episode.task());
      if (most > 0 && tries->second.tries >= most) continue;
      ++tries->second.tries;
      tries->second.right += episode.reward() > above ? 1 : 0;
      for (const v1::Call& call : tree.calls()) {
        rated.temperature = std::max(rated.temperature, call.sampling().temperature());
      }
    }
    return absl::OkStatus();
  }));
  if (rated.tasks.empty()) return absl::NotFoundError(absl::StrCat("'", run_dir, "' contains no finished episode"));
  return rated;
}

absl::StatusOr<std::ofstream> OpenOut(const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) return out;
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' cannot be written: name a file in a folder that exists"));
}

absl::Status Close(std::ofstream& out, const std::string& path) {
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("'", path, "' could not be written completely: is the disk full?"));
}

// Prints how the rates were measured and how to improve them. With 10 samples at a higher temperature, tasks that are
// sometimes solved can be told apart from tasks that never are.
void PrintMeasure(const PoolTries& rated) {
  constexpr int64_t kSamples = 10;
  int64_t fewest = rated.tries.begin()->second.tries;
  for (const auto& [task, tries] : rated.tries) fewest = std::min(fewest, tries.tries);
  std::printf("  at least %ld samples per task, at temperature %g\n", static_cast<long>(fewest),
              static_cast<double>(rated.temperature));
  if (fewest >= kSamples && rated.temperature > 1) return;
  std::printf(
      "  for more accurate rates, use %ld samples at a higher temperature: ingot collect --samples %ld --temperature "
      "1.2\n",
      static_cast<long>(kSamples), static_cast<long>(kSamples));
}

absl::StatusOr<int> RateOrError(const TasksRateArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const PoolTries rated, TriesIn(args.run_dir, args.above, 0));
  INGOT_ASSIGN_OR_RETURN(std::ofstream out, OpenOut(args.out));
  std::map<int, int64_t> histogram;  // by tenths
  for (const v1::Task& task : rated.tasks) {
    const TaskTries& tries = rated.tries.at(task.task_id());
    INGOT_ASSIGN_OR_RETURN(value line, base::ParseJson(task.payload_json().empty() ? "{}" : task.payload_json()));
    object& fields = line.as_object();
    fields["task_id"] = task.task_id();
    fields[args.field] = tries.rate();
    fields[args.field + "_samples"] = tries.tries;
    out << base::PrintJson(line) << '\n';
    ++histogram[static_cast<int>(tries.rate() * 10)];
  }
  INGOT_RETURN_IF_ERROR(Close(out, args.out));
  std::printf("%zu tasks in %s\n", rated.tasks.size(), args.out.c_str());
  PrintMeasure(rated);
  for (const auto& [tenth, count] : histogram) {
    std::printf("  rate %.1f%s  %ld\n", tenth / 10.0,
                tenth == 10 ? "      " : absl::StrCat(" to ", (tenth + 1) / 10.0).c_str(), static_cast<long>(count));
  }
  return 0;
}

// Converts the task's own rate to attempts; nullopt = it has none. Returns INVALID_ARGUMENT if the rate is not a number
// from 0 to 1.
absl::StatusOr<std::optional<TaskTries>> OwnRate(const value& task, const std::string& field) {
  const value* rate = base::Find(task, field);
  if (rate == nullptr) return std::nullopt;
  const double number = rate->is_number() ? rate->to_number<double>() : -1;
  if (!(number >= 0 && number <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", field, "' is ", base::PrintJson(*rate), ": it must be a number from 0 to 1"));
  }
  constexpr int64_t kTries = 1'000'000'000;
  return TaskTries{kTries, static_cast<int64_t>(number * kTries)};
}

absl::StatusOr<int> FilterOrError(const TasksFilterArgs& args) {
  std::optional<PoolTries> rated, guessed;
  if (!args.rated.empty()) {
    INGOT_ASSIGN_OR_RETURN(rated, TriesIn(args.rated, args.above, 0));
  }
  if (!args.guesses.empty()) {
    INGOT_ASSIGN_OR_RETURN(guessed, TriesIn(args.guesses, args.above, args.guess));
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, dataset::LoadTasks(args.tasks));
  INGOT_ASSIGN_OR_RETURN(std::ofstream out, OpenOut(args.out));
  const dataset::TaskFilterOptions options{.min_rate = args.min_rate,
                                           .max_rate = args.max_rate,
                                           .guesses = args.guess,
                                           .formats = args.formats,
                                           .question_field = args.question_field,
                                           .answer_field = args.answer_field};
  std::map<std::string, int64_t> dropped;
  int64_t kept = 0, unrated = 0, read = 0;
  Progress progress("tasks filter");
  for (const v1::Task& task : tasks) {
    progress.Show("tasks", read++, std::ssize(tasks));
    INGOT_ASSIGN_OR_RETURN(const value line, base::ParseJson(task.payload_json()));
    std::optional<TaskTries> tries;
    if (rated.has_value()) {
      const auto found = rated->tries.find(task.task_id());
      if (found != rated->tries.end()) tries = found->second;
    } else {
      auto own = OwnRate(line, args.rate_field);
      if (!own.ok()) return base::Annotate(own.status(), absl::StrCat("task '", task.task_id(), "'"));
      tries = *own;
    }
    unrated += tries.has_value() ? 0 : 1;
    const TaskTries* guesses = nullptr;
    if (guessed.has_value() && guessed->tries.contains(task.task_id())) guesses = &guessed->tries.at(task.task_id());
    if (const auto reason = ReasonToDrop(line, tries.has_value() ? &*tries : nullptr, guesses, options)) {
      ++dropped[*reason];
      continue;
    }
    ++kept;
    out << task.payload_json() << '\n';
  }
  progress.Clear();
  INGOT_RETURN_IF_ERROR(Close(out, args.out));
  std::printf("kept %ld of %zu tasks, in %s\n", static_cast<long>(kept), tasks.size(), args.out.c_str());
  for (const auto& [reason, count] : dropped)
    std::printf("  dropped %-16s %ld\n", reason.c_str(), static_cast<long>(count));
  if (unrated > 0)
    std::printf("  %ld tasks have no pass rate and count as neither trivial nor impossible\n",
                static_cast<long>(unrated));
  if (kept > 0) return 0;
  return absl::NotFoundError("no task was kept");
}

}  // namespace

int TasksRate(const TasksRateArgs& args) {
  const absl::StatusOr<int> code = RateOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

int TasksFilter(const TasksFilterArgs& args) {
  const absl::StatusOr<int> code = FilterOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
