#include "view/runs/run_index.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "view/json/curve_json.h"
#include "view/runs/end_uncalled.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// Returns the newest value of a metric, or null if the record has none.
value Newest(const Rows& rows, const std::string& metric) {
  const std::vector<Row> last = rows.Last(metric, 1);
  return last.empty() ? value(nullptr) : value(last.back().Get(metric));
}

array DifferencesJson(const IndexedRun& run) {
  array list;
  for (const IndexedRun::KeyDifference& one : run.differences) {
    list.push_back(object{{"key", SafeText(one.key)}, {"first", SafeText(one.first)}, {"own", SafeText(one.own)}});
  }
  return list;
}

object RunJson(const IndexedRun& run, const Rows& rows) {
  object fields{{"name", SafeText(run.name)},
                {"total_steps", run.total_steps},
                {"error", SafeText(run.error)},
                {"reward", Newest(rows, "reward/mean")},
                {"evaluated", Newest(rows, "eval/reward_mean")},
                {"differences", DifferencesJson(run)}};
  const std::vector<Row> last = rows.Last("perf/step_seconds", 1);
  fields["steps"] = last.empty() ? 0 : last.back().step + 1;
  fields["newest"] = last.empty() ? value(nullptr) : value(last.back().time);
  return fields;
}

value OptionalJson(const std::optional<Estimate>& estimate) {
  return estimate ? value(EstimateJson(*estimate)) : value(nullptr);
}

constexpr std::string_view kOf = "/api/of/";

}  // namespace

absl::StatusOr<std::string> RunIndex::Answer(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.starts_with(kOf)) return AnswerOf(target.substr(kOf.size()));
  const Query query = Query::Of(target);
  if (path == "/api/run") {
    INGOT_RETURN_IF_ERROR(query.Only({}));
    const std::string name = folder_.substr(folder_.rfind('/') + 1);
    return base::PrintJson(object{{"index", true}, {"name", SafeText(name)}, {"folder", SafeText(folder_)}});
  }
  if (path == "/api/runs") {
    INGOT_RETURN_IF_ERROR(query.Only({}));
    INGOT_ASSIGN_OR_RETURN(const value runs, Runs());
    return base::PrintJson(runs);
  }
  if (path == "/api/compared") {
    INGOT_RETURN_IF_ERROR(query.Only({"run", "first"}));
    INGOT_ASSIGN_OR_RETURN(const value compared, Compared(query));
    return base::PrintJson(compared);
  }
  if (path != "/api/curves") {
    return absl::NotFoundError("the index of runs has no such API path; a run's paths are under /api/of/NAME/");
  }
  INGOT_RETURN_IF_ERROR(query.Only({"run", "names", "points"}));
  INGOT_ASSIGN_OR_RETURN(const value curves, Curves(query));
  return base::PrintJson(curves);
}

absl::StatusOr<std::string> RunIndex::EndUncalled(std::string_view target, const std::string& key) {
  return AnswerEnd(nullptr, target, key);
}

absl::StatusOr<std::shared_ptr<Rows>> RunIndex::RowsOf(const std::string& folder) {
  std::shared_ptr<Rows> rows;
  {
    base::MutexLock lock(mu_);
    std::shared_ptr<Rows>& kept = rows_[folder];
    if (kept == nullptr) kept = std::make_shared<Rows>(folder + "/metrics.jsonl");
    rows = kept;
  }
  INGOT_RETURN_IF_ERROR(rows->Refresh());
  return rows;
}

absl::StatusOr<value> RunIndex::Runs() {
  array list;
  std::set<std::string> names;
  for (const IndexedRun& run : runs_()) {
    const absl::StatusOr<std::shared_ptr<Rows>> rows = RowsOf(run.folder);
    if (!rows.ok()) {
      IndexedRun unread = run;
      unread.error = std::string(rows.status().message());
      list.push_back(RunJson(unread, Rows("")));
      continue;
    }
    for (const std::string& name : (*rows)->Names()) names.insert(SafeText(name));
    list.push_back(RunJson(run, **rows));
  }
  return object{{"runs", std::move(list)}, {"names", array(names.begin(), names.end())}};
}

absl::StatusOr<IndexedRun> RunIndex::Find(const std::string& name) {
  for (IndexedRun& run : runs_()) {
    if (SafeText(run.name) == name) return std::move(run);
  }
  return absl::NotFoundError(
      absl::StrCat("run: ", SafeText(folder_), " has no run '", SafeText(name), "'; it may have been removed"));
}

absl::StatusOr<std::string> RunIndex::AnswerOf(std::string_view target) {
  const size_t slash = std::min(target.find('/'), target.size());
  const std::string name = Query::Of("?name=" + std::string(target.substr(0, slash))).Text("name");
  INGOT_ASSIGN_OR_RETURN(const IndexedRun run, Find(name));
  absl::StatusOr<OpenedRun> opened = open_(run.folder);
  if (!opened.ok()) return base::Annotate(opened.status(), SafeText(name));
  return opened->answers->Answer("/api" + std::string(target.substr(slash)));
}

void RunIndex::ReadTasks(const IndexedRun& run, double time, Evaluated& evaluated) {
  const absl::StatusOr<OpenedRun> opened = open_(run.folder);
  const auto pool = opened.ok() ? opened->pool() : opened.status();
  absl::Status read = ReadEvaluation(pool.ok() ? pool->get() : nullptr, evaluated.run);
  if (read.ok()) read = pool.status();
  evaluated.settled = static_cast<double>(clock_.UnixNanos()) * 1e-9 > time + static_cast<double>(kSettled.count());
  if (!read.ok() || evaluated.run.tasks.empty()) {
    evaluated.no_tasks = read.ok() ? "the evaluation's episodes are no longer stored" : std::string(read.message());
    return;
  }
  if (!evaluated.settled) return;
  base::MutexLock lock(mu_);
  tasks_[run.folder] = {time, evaluated.run.tasks};
}

absl::StatusOr<RunIndex::Evaluated> RunIndex::EvaluatedOf(const IndexedRun& run) {
  Evaluated evaluated;
  INGOT_ASSIGN_OR_RETURN(evaluated.rows, RowsOf(run.folder));
  evaluated.run.rows = evaluated.rows.get();
  const std::vector<Row> newest = evaluated.rows->Last("eval/reward_mean", 1);
  if (newest.empty()) return evaluated;
  {
    base::MutexLock lock(mu_);
    const auto known = tasks_.find(run.folder);
    if (known != tasks_.end() && known->second.time == newest.back().time) {
      INGOT_RETURN_IF_ERROR(ReadEvaluation(nullptr, evaluated.run));
      evaluated.run.tasks = known->second.tasks;
      return evaluated;
    }
  }
  ReadTasks(run, newest.back().time, evaluated);
  return evaluated;
}

absl::StatusOr<value> RunIndex::Compared(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const IndexedRun run, Find(query.Text("run")));
  INGOT_ASSIGN_OR_RETURN(const Evaluated own, EvaluatedOf(run));
  std::optional<Evaluated> first;
  if (const std::string name = query.Text("first"); !name.empty() && name != query.Text("run")) {
    INGOT_ASSIGN_OR_RETURN(const IndexedRun other, Find(name));
    INGOT_ASSIGN_OR_RETURN(first, EvaluatedOf(other));
  }
  const ComparedFigures figures = FiguresOf(own.run, first ? &first->run : nullptr);
  std::optional<Estimate> difference;
  if (figures.difference && figures.difference->known()) difference = figures.difference->estimate;
  return object{{"steps", figures.steps},
                {"reward", EstimateJson(figures.reward)},
                {"version", own.run.evaluated_version},
                {"evaluation", OptionalJson(figures.evaluation)},
                {"no_interval", SafeText(own.no_tasks)},
                {"difference", OptionalJson(difference)},
                {"settled", own.settled && (!first || first->settled)}};
}

absl::StatusOr<value> RunIndex::Curves(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const IndexedRun run, Find(query.Text("run")));
  INGOT_ASSIGN_OR_RETURN(const CurveQuery curve_query, CurveQuery::Of(query));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Rows> rows, RowsOf(run.folder));
  object curves;
  for (const std::string& name : curve_query.names)
    curves[SafeText(name)] = CurveJson(rows->CurveOf(name, curve_query.points));
  const Progress progress = rows->ProgressOf(curve_query.points);
  return object{{"curves", std::move(curves)},
                {"progress", object{{"steps", NumbersJson(progress.steps)},
                                    {"seconds", NumbersJson(progress.seconds)},
                                    {"tokens", NumbersJson(progress.tokens)}}}};
}

}  // namespace ingot::view
