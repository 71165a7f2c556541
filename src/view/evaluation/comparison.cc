#include "view/evaluation/comparison.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/printable.h"
#include "view/runs/supervised.h"

namespace ingot::view {
namespace {

std::string Differences(const ComparedRun& run, const std::string& first) {
  constexpr size_t kMaxBytes = 100;  // limit on a value
  if (run.differences.empty()) return "";
  std::string text = fmt::format("{}: {} key{} from {}\n", run.name, run.differences.size(),
                                 run.differences.size() == 1 ? " differs" : "s differ", first);
  bool terms = false;
  for (const ComparedRun::KeyDifference& one : run.differences) {
    text += fmt::format("  {}: {}, in {} {}\n", one.key, base::Printable(one.own, {.max_bytes = kMaxBytes}), first,
                        base::Printable(one.first, {.max_bytes = kMaxBytes}));
    terms = terms || one.key == "rewards.terms";
  }
  if (terms) {
    text += fmt::format("  the rewards of {} and {} have different terms: compare their evaluations instead\n",
                        run.name, first);
  }
  return text;
}

// Returns the names of the sets in the newest evaluation, if they have names.
std::vector<std::string> SetsOf(const ComparedRun& run) {
  constexpr std::string_view kMean = "eval/reward_mean@set:";
  std::vector<std::string> sets;
  for (const Row& row : run.rows->Last("eval/reward_mean", 1)) {
    for (const auto& [name, value] : row.values) {
      if (name.starts_with(kMean)) sets.push_back(name.substr(kMean.size()));
    }
  }
  return sets;
}

std::map<std::string, PairedDifference> SetDifferences(const ComparedRun& run, const ComparedRun& first) {
  std::map<std::string, PairedDifference> differences;
  for (const std::string& set : SetsOf(run)) {
    differences[set] = DifferenceOf(TasksOfSet(first.tasks, set), TasksOfSet(run.tasks, set));
  }
  return differences;
}

// Returns a line for all tasks and one for each of several sets, or "" without stored evaluations of both.
std::string Verdicts(const ComparedRun& run, const ComparedRun& first, const std::optional<PairedDifference>& all) {
  if (!all) return "";
  std::string text = fmt::format("{} - {}: {}\n", run.name, first.name, Verdict(*all));
  const std::map<std::string, PairedDifference> sets = SetDifferences(run, first);
  if (sets.size() < 2) return text;
  for (const auto& [set, difference] : sets) {
    text += fmt::format("  {}: {}\n", base::Printable(set), Verdict(difference));
  }
  return text;
}

base::json::value KnownEstimate(const std::optional<Estimate>& estimate) {
  if (!estimate || estimate->values == 0) return nullptr;
  return EstimateJson(*estimate);
}

base::json::value DifferenceJson(const PairedDifference& difference) {
  base::json::object json{{"tasks", difference.estimate.values},
                          {"only_first", difference.only_first},
                          {"only_other", difference.only_other},
                          {"real", difference.real()}};
  if (!difference.known()) return json;
  json["mean"] = difference.estimate.mean;
  json["low"] = difference.estimate.low;
  json["high"] = difference.estimate.high;
  json["p_value"] = difference.p_value;
  return json;
}

// Returns pass@K of the newest evaluation, by K.
std::map<int64_t, double> NewestPasses(const ComparedRun& run) {
  const std::map<int64_t, std::map<int64_t, double>> by_version = EvaluatedPasses(*run.rows);
  const auto newest = by_version.find(run.evaluated_version);
  return newest == by_version.end() ? std::map<int64_t, double>() : newest->second;
}

base::json::object PassesJson(const ComparedRun& run) {
  base::json::object passes;
  for (const auto& [k, pass] : NewestPasses(run)) passes[std::to_string(k)] = pass;
  return passes;
}

base::json::array KeysJson(const ComparedRun& run) {
  base::json::array keys;
  for (const ComparedRun::KeyDifference& one : run.differences) {
    keys.push_back(base::json::object{
        {"key", base::Printable(one.key)}, {"first", base::Printable(one.first)}, {"own", base::Printable(one.own)}});
  }
  return keys;
}

}  // namespace

absl::Status ReadEvaluation(datapool::Client* pool, ComparedRun& run) {
  const std::map<int64_t, double> versions = EvaluatedVersions(*run.rows);
  if (versions.empty()) return absl::OkStatus();
  run.evaluated_version = versions.rbegin()->first;
  run.evaluated_mean = versions.rbegin()->second;
  if (pool == nullptr) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(run.tasks, EvaluatedTasks(*pool, run.evaluated_version));
  return absl::OkStatus();
}

ComparedFigures FiguresOf(const ComparedRun& run, const ComparedRun* first) {
  ComparedFigures figures;
  const std::vector<Row> last = run.rows->Last("perf/step_seconds", 1);
  figures.steps = last.empty() ? 0 : last.front().step + 1;
  figures.reward = LastReward(*run.rows, 10);
  if (run.evaluated_version >= 0) {
    figures.evaluation = run.tasks.empty() ? Estimate{run.evaluated_mean, run.evaluated_mean, run.evaluated_mean, 1}
                                           : EstimateOf(run.tasks);
  }
  if (first != nullptr && !first->tasks.empty() && !run.tasks.empty()) {
    figures.difference = DifferenceOf(first->tasks, run.tasks);
  }
  return figures;
}

std::string IntervalText(const Estimate& estimate) {
  if (estimate.values == 0) return "–";
  if (estimate.values < 2) return fmt::format("{:.4g}", estimate.mean);
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", estimate.mean, estimate.low, estimate.high);
}

std::string CompareText(const std::vector<ComparedRun>& runs) {
  size_t width = 3;
  for (const ComparedRun& run : runs) width = std::max(width, run.name.size());
  std::string verdicts,
      text = fmt::format("{:<{}}  {:>6}  {:<30}  {:<34}  {}\n", "run", width, "steps", "reward, last ten steps (95 %)",
                         "newest evaluation (95 % over tasks)", "difference from the first");
  for (const ComparedRun& run : runs) {
    const ComparedFigures figures = FiguresOf(run, &run == &runs.front() ? nullptr : &runs.front());
    const std::string evaluated =
        figures.evaluation ? fmt::format("{}, version {}", IntervalText(*figures.evaluation), run.evaluated_version)
                           : "–";
    const std::string difference = figures.difference && figures.difference->known()
                                       ? fmt::format("{}, {} tasks", IntervalText(figures.difference->estimate),
                                                     figures.difference->estimate.values)
                                       : "–";
    text += fmt::format("{:<{}}  {:>6}  {:<30}  {:<34}  {}\n", run.name, width, figures.steps,
                        IntervalText(figures.reward), evaluated, difference);
    verdicts += Verdicts(run, runs.front(), figures.difference);
  }
  text += verdicts;
  for (const ComparedRun& run : runs) {
    const std::map<int64_t, double> passes = NewestPasses(run);
    if (passes.empty()) continue;
    text += fmt::format("{}: version {}", run.name, run.evaluated_version);
    for (const auto& [k, pass] : passes) text += fmt::format(", pass@{} {:.4g}", k, pass);
    text += "\n";
  }
  for (const ComparedRun& run : runs) {
    const std::optional<Row> step = NewestSupervised(*run.rows);
    if (!step) continue;
    text += fmt::format("{}: {} supervised steps", run.name, step->step + 1);
    for (const auto& [name, value] : SupervisedFigures(*step)) text += fmt::format(", {} {}", name, value);
    text += "\n";
  }
  for (const ComparedRun& run : runs) text += Differences(run, runs.front().name);
  return text;
}

base::json::value CompareJson(const std::vector<ComparedRun>& runs) {
  base::json::array rows;
  for (const ComparedRun& run : runs) {
    const ComparedRun* first = &run == &runs.front() ? nullptr : &runs.front();
    const ComparedFigures figures = FiguresOf(run, first);
    base::json::object sets;
    if (figures.difference) {
      for (const auto& [set, difference] : SetDifferences(run, *first)) {
        sets[base::Printable(set)] = DifferenceJson(difference);
      }
    }
    base::json::value version = nullptr, difference = nullptr;
    if (run.evaluated_version >= 0) version = run.evaluated_version;
    if (figures.difference) difference = DifferenceJson(*figures.difference);
    rows.push_back(base::json::object{{"name", run.name},
                                      {"steps", figures.steps},
                                      {"reward", KnownEstimate(figures.reward)},
                                      {"version", version},
                                      {"evaluation", KnownEstimate(figures.evaluation)},
                                      {"passes", PassesJson(run)},
                                      {"difference", difference},
                                      {"sets", sets},
                                      {"keys", KeysJson(run)}});
  }
  return base::json::object{{"runs", rows}};
}

}  // namespace ingot::view
