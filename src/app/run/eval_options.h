// Configures a run's evaluations and goal. The Bind functions declare each key with its meaning and bounds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

// Returns all files for a key that accepts one or several files. Empty `first` = none.
std::vector<std::string> AllFiles(const std::string& first, const std::vector<std::string>& more);

struct EvalOptions {
  std::string tasks;                             // empty = no evaluation, or `sets` is used
  std::map<std::string, std::string> sets = {};  // files by set name; if not empty, `tasks` is empty
  int64_t every_versions = 0;
  bool at_start = false;
  int32_t avg_n = 1;
  double success = 1;
  bool keep_best = false;  // see best_model.h

  std::vector<std::string> more_tasks = {};  // files after `tasks`; only for `ingot collect`

  bool has_tasks() const { return !tasks.empty() || !sets.empty(); }
  // Returns all files by set name; "" = the files in `tasks`.
  std::map<std::string, std::vector<std::string>> Files() const;
  // Returns whether the run retains weights for an evaluation while newer versions are live.
  bool of_earlier_versions() const { return at_start || every_versions > 0; }
  // Returns INVALID_ARGUMENT if keys conflict.
  absl::Status Validate() const;
};

// Bounds on the run's rewards. They are checked when the run ends and determine its exit code.
struct GoalOptions {
  int64_t first_steps = 0;
  double first_reward_below = 1;
  int64_t last_steps = 0;
  double last_reward_above = 0;
  static constexpr double kNoBound = -1e9;  // lower than any reward
  double eval_above = kNoBound;

  bool of_steps() const { return first_steps > 0 || last_steps > 0; }
  bool of_evaluation() const { return eval_above != kNoBound; }
};

void Bind(base::Schema& schema, EvalOptions& options);
void Bind(base::Schema& schema, GoalOptions& options);

}  // namespace ingot::app
