// Answers for the page of a folder of runs: JSON about all runs, from their records and configurations. Does not read
// pools. `ingot view RUN` shows a run's episodes.
//
//   /api/run                                   the folder's name, marked as an index
//   /api/runs                                  the runs with their newest figures and differing keys, and all metrics
//   /api/curves?run=NAME&names=a,b&points=400  metrics of one run over its steps, and the steps' times and tokens
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "view/answers.h"
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

class RunIndex final : public Answers {
 public:
  // `runs` returns the folder's current runs, by name. It is called on the page's thread.
  RunIndex(std::string folder, std::function<std::vector<IndexedRun>()> runs)
      : folder_(std::move(folder)), runs_(std::move(runs)) {}

  // Answers
  absl::StatusOr<std::string> Answer(std::string_view target) override;
  absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) override;

 private:
  absl::StatusOr<base::json::value> Runs();
  absl::StatusOr<base::json::value> Curves(const Query& query);
  // Returns the record of the run in `folder`, read to its current end.
  absl::StatusOr<std::shared_ptr<Rows>> RowsOf(const std::string& folder);

  const std::string folder_;
  const std::function<std::vector<IndexedRun>()> runs_;
  base::Mutex mu_;
  std::map<std::string, std::shared_ptr<Rows>> rows_ ABSL_GUARDED_BY(mu_);  // by folder
};

}  // namespace ingot::view
