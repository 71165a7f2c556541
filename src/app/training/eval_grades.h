// Applies a run's reward terms to an evaluation, to report the training reward for held-out tasks in addition to the
// outcome.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "app/run/named_models.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "datapool/client.h"
#include "reward/rule.h"
#include "reward/term_parts.h"

namespace ingot::app {

class EvalGrades {
 public:
  // Returns null if the run's reward is only the outcome. Skips terms that give no reward (teacher). REQUIRES: `pool`
  // outlives the result.
  static absl::StatusOr<std::unique_ptr<EvalGrades>> Make(const RunConfig& config, datapool::Client& pool,
                                                          const reward::TermParts& parts);

  // Returns the metrics of a completed evaluation: `eval/graded_mean` (mean reward of finished episodes),
  // `eval/term/NAME`, and `eval/ungraded` (number of episodes without a grade). Stores nothing. Blocks on terms that
  // call servers.
  absl::StatusOr<std::map<std::string, double>> Of(int64_t version) const;

 private:
  EvalGrades(reward::Rule rule, datapool::Client& pool, const RunConfig& config)
      : rule_(std::move(rule)),
        pool_(pool),
        total_steps_(config.scheduler.total_steps),
        other_models_(OtherModels(config.gateway)) {}

  const reward::Rule rule_;
  datapool::Client& pool_;
  const int64_t total_steps_;
  const std::set<std::string> other_models_;
};

}  // namespace ingot::app
