// The evaluations and the goal of a run. The Bind functions declare each key with its meaning and bounds.
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

// The files of a key that takes one or several; `first` empty = none.
std::vector<std::string> AllFiles(const std::string& first, const std::vector<std::string>& more);

struct EvalOptions {
  std::string tasks;                             // empty = no evaluation, or several `sets`
  std::map<std::string, std::string> sets = {};  // files by the name of their set; `tasks` is empty then
  int64_t every_versions = 0;
  bool at_start = false;
  int32_t avg_n = 1;
  double success = 1;
  bool keep_best = false;  // best_model.h

  std::vector<std::string> more_tasks = {};  // files after `tasks`, only of `ingot collect`

  bool has_tasks() const { return !tasks.empty() || !sets.empty(); }
  // All files by the name of their set; "" = the files of `tasks`.
  std::map<std::string, std::vector<std::string>> Files() const;
  // Whether the run holds weights back for an evaluation while newer ones are live.
  bool of_earlier_versions() const { return at_start || every_versions > 0; }
  // INVALID_ARGUMENT: keys that conflict.
  absl::Status Validate() const;
};

// Bounds of the run's rewards. They are checked at the run's end and decide the exit code.
struct GoalOptions {
  int64_t first_steps = 0;
  double first_reward_below = 1;
  int64_t last_steps = 0;
  double last_reward_above = 0;
  static constexpr double kNoBound = -1e9;  // below every reward
  double eval_above = kNoBound;

  bool of_steps() const { return first_steps > 0 || last_steps > 0; }
  bool of_evaluation() const { return eval_above != kNoBound; }
};

void Bind(base::Schema& schema, EvalOptions& options);
void Bind(base::Schema& schema, GoalOptions& options);

}  // namespace ingot::app
