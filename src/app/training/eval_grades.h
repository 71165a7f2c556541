// The reward terms of a run, applied to an evaluation: the training reward of held-out tasks, in addition to the
// outcome.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "reward/options.h"
#include "reward/rule.h"
#include "reward/term_parts.h"

namespace ingot::app {

class EvalGrades {
 public:
  // `total_steps`: of the run. Null if the reward is only the outcome. Terms that give no reward (teacher) are left out. REQUIRES: `pool` outlives
  // it.
  static absl::StatusOr<std::unique_ptr<EvalGrades>> Make(reward::RewardOptions options, int64_t total_steps,
                                                          datapool::Client& pool, const reward::TermParts& parts);

  // Metrics of an ended evaluation: `eval/graded_mean`, the mean reward of its finished episodes, `eval/term/NAME` and
  // `eval/ungraded`, the episodes that no term could judge. Nothing is stored. Blocks for terms that ask servers.
  absl::StatusOr<std::map<std::string, double>> Of(int64_t version) const;

 private:
  EvalGrades(reward::Rule rule, datapool::Client& pool, int64_t total_steps)
      : rule_(std::move(rule)), pool_(pool), total_steps_(total_steps) {}

  const reward::Rule rule_;
  datapool::Client& pool_;
  const int64_t total_steps_;
};

}  // namespace ingot::app
