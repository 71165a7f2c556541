// Serves the page for a folder of runs: JSON about all runs, from their records and configurations, and the data for
// each run's own page. Opens a run's pool only for the run's own page and its newest evaluation.
//
//   /api/run                                   the folder's name, marked as an index
//   /api/runs                                  the runs with their newest figures and differing keys, and all metrics
//   /api/curves?run=NAME&names=a,b&points=400  metrics of one run over its steps, and the steps' times and tokens
//   /api/compared?run=NAME&first=NAME          one run's rewards and newest evaluation, with 95% intervals, and the
//                                              difference from `first`, like `ingot compare`
//   /api/of/NAME/PATH?...                      same as /api/PATH on the run's own page (run_view.h)
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "view/answers.h"
#include "view/evaluation/comparison.h"
#include "view/query.h"
#include "view/rows.h"

namespace ingot::view {

struct IndexedRun {
  std::string name;  // folder name
  std::string folder;
  int64_t total_steps = 0;  // 0 = the run has only supervised stages
  std::string error = {};   // why its configuration could not be read; empty = it was read
  struct KeyDifference {
    std::string key, first, own;  // values as YAML
  };
  std::vector<KeyDifference> differences = {};  // compared with the first run whose configuration was read
};

// A run whose page can be served.
struct OpenedRun {
  std::shared_ptr<Answers> answers;
  std::function<absl::StatusOr<std::shared_ptr<datapool::Client>>()> pool;  // as in RunSource
};

class RunIndex final : public Answers {
 public:
  // `runs` returns the folder's current runs, by name. `open` opens one of them, given its folder, and keeps it open.
  // Both are called on the page's thread.
  RunIndex(std::string folder, std::function<std::vector<IndexedRun>()> runs,
           std::function<absl::StatusOr<OpenedRun>(const std::string& folder)> open,
           const base::Clock& clock = base::Clock::Real())
      : folder_(std::move(folder)), runs_(std::move(runs)), open_(std::move(open)), clock_(clock) {}

  // An evaluation is complete this long after it is recorded. Until then, an open pool may lack episodes.
  static constexpr std::chrono::seconds kSettled{10};

  // Answers
  absl::StatusOr<std::string> Answer(std::string_view target) override;
  absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) override;

 private:
  absl::StatusOr<base::json::value> Runs();
  absl::StatusOr<base::json::value> Curves(const Query& query);
  absl::StatusOr<base::json::value> Compared(const Query& query);
  // Answers a target below /api/of/.
  absl::StatusOr<std::string> AnswerOf(std::string_view target);
  // Returns NOT_FOUND if the folder has no run with this name. Names are as shown on the page (SafeText).
  absl::StatusOr<IndexedRun> Find(const std::string& name);
  // A run with its newest evaluation. `rows` owns the record that `run` refers to.
  struct Evaluated {
    std::shared_ptr<Rows> rows;
    ComparedRun run;
    std::string no_tasks;  // why the evaluation has no interval; empty = it has one, or there is no evaluation
    bool settled = true;   // false = `run.tasks` may still grow
  };
  absl::StatusOr<Evaluated> EvaluatedOf(const IndexedRun& run);
  // Reads the tasks of the evaluation that was recorded at `time` from the pool, and keeps them once they are settled.
  void ReadTasks(const IndexedRun& run, double time, Evaluated& evaluated);
  // Returns the record of the run in `folder`, read to its current end.
  absl::StatusOr<std::shared_ptr<Rows>> RowsOf(const std::string& folder);

  const std::string folder_;
  const std::function<std::vector<IndexedRun>()> runs_;
  const std::function<absl::StatusOr<OpenedRun>(const std::string& folder)> open_;
  const base::Clock& clock_;
  base::Mutex mu_;
  std::map<std::string, std::shared_ptr<Rows>> rows_ ABSL_GUARDED_BY(mu_);  // by folder
  // The tasks of the evaluation that was recorded at `time`, by run folder.
  struct KnownTasks {
    double time = 0;
    TaskRewards tasks;
  };
  std::map<std::string, KnownTasks> tasks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::view
