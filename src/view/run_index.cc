#include "view/run_index.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "view/curve_json.h"
#include "view/end_uncalled.h"
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

}  // namespace

absl::StatusOr<std::string> RunIndex::Answer(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
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
  if (path != "/api/curves") {
    return absl::NotFoundError("an index of runs has no such API path; `ingot view RUN` serves the page of one run");
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

absl::StatusOr<value> RunIndex::Curves(const Query& query) {
  const std::string wanted = query.Text("run");
  const std::vector<IndexedRun> runs = runs_();
  const auto run =
      std::find_if(runs.begin(), runs.end(), [&](const IndexedRun& one) { return SafeText(one.name) == wanted; });
  if (run == runs.end()) {
    return absl::NotFoundError(absl::StrCat("run: ", SafeText(folder_), " has no run '", SafeText(wanted), "'"));
  }
  INGOT_ASSIGN_OR_RETURN(const CurveQuery curve_query, CurveQuery::Of(query));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Rows> rows, RowsOf(run->folder));
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
