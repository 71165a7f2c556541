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
  if (first != nullptr) figures.difference = DifferenceOf(first->tasks, run.tasks);
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
  std::string text =
      fmt::format("{:<{}}  {:>6}  {:<30}  {:<34}  {}\n", "run", width, "steps", "reward, last ten steps (95 %)",
                  "newest evaluation (95 % over tasks)", "difference from the first");
  for (const ComparedRun& run : runs) {
    const ComparedFigures figures = FiguresOf(run, &run == &runs.front() ? nullptr : &runs.front());
    const std::string evaluated =
        figures.evaluation ? fmt::format("{}, version {}", IntervalText(*figures.evaluation), run.evaluated_version)
                           : "–";
    const std::string difference =
        figures.difference ? fmt::format("{}, {} tasks", IntervalText(*figures.difference), figures.difference->values)
                           : "–";
    text += fmt::format("{:<{}}  {:>6}  {:<30}  {:<34}  {}\n", run.name, width, figures.steps,
                        IntervalText(figures.reward), evaluated, difference);
  }
  for (const ComparedRun& run : runs) {
    const std::map<int64_t, std::map<int64_t, double>> passes = EvaluatedPasses(*run.rows);
    const auto newest = passes.find(run.evaluated_version);
    if (newest == passes.end()) continue;
    text += fmt::format("{}: version {}", run.name, newest->first);
    for (const auto& [k, pass] : newest->second) text += fmt::format(", pass@{} {:.4g}", k, pass);
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

}  // namespace ingot::view
