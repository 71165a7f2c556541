// The answers of the page of a folder of runs: JSON about all of them, from their records and configurations. Pools are
// not read: `ingot view RUN` shows a run's episodes.
//
//   /api/run                                   that this is an index, and the folder's name
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
  std::string name;  // of its folder
  std::string folder;
  int64_t total_steps = 0;  // 0 = a run with only supervised stages
  std::string error = {};   // why its configuration cannot be read; empty = it was read
  struct KeyDifference {
    std::string key, first, own;  // values as YAML
  };
  std::vector<KeyDifference> differences = {};  // from the first run whose configuration was read
};

class RunIndex final : public Answers {
 public:
  // `runs`: the folder's runs as they are now, by name. Called on the page's thread.
  RunIndex(std::string folder, std::function<std::vector<IndexedRun>()> runs)
      : folder_(std::move(folder)), runs_(std::move(runs)) {}

  // Answers
  absl::StatusOr<std::string> Answer(std::string_view target) override;
  absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) override;

 private:
  absl::StatusOr<base::json::value> Runs();
  absl::StatusOr<base::json::value> Curves(const Query& query);
  // The record of the run in `folder`, read up to its end.
  absl::StatusOr<std::shared_ptr<Rows>> RowsOf(const std::string& folder);

  const std::string folder_;
  const std::function<std::vector<IndexedRun>()> runs_;
  base::Mutex mu_;
  std::map<std::string, std::shared_ptr<Rows>> rows_ ABSL_GUARDED_BY(mu_);  // by folder
};

}  // namespace ingot::view
