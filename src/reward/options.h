// The configuration of the reward stage: `rewards` in the YAML.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/term.h"
#include "reward/term_parts.h"
#include "reward/terms/completion_time.h"
#include "reward/terms/effort.h"
#include "reward/terms/external_score.h"
#include "reward/terms/judge.h"
#include "reward/terms/language_mixing.h"
#include "reward/terms/length.h"
#include "reward/terms/overlong.h"
#include "reward/terms/parl.h"
#include "reward/terms/repetition.h"
#include "reward/terms/retrieval.h"
#include "reward/terms/teacher.h"
#include "reward/terms/toggle.h"

namespace ingot::reward {

// When and where a term counts. Time is t = the version that was live at the group's admission, over the run's steps.
struct TermSchedule {
  double from = 0;          // in [0, 1]: it counts from t = `from` on; before it the weight is 0
  double until = 1;         // in [from, 1]: it counts up to here; 1 = to the end
  bool linear = false;      // the weight falls linearly from its full value at `from` to 0 at `until`
  int64_t phase_steps = 0;  // > 0: the run is cut into phases of this many versions, numbered from 0
  int32_t phase = -1;       // 0 = it counts only in even phases, 1 = only in odd phases; -1 = in all

  // The factor of the weight at this version, in [0, 1].
  double At(int64_t version, int64_t total_steps) const;
  bool operator==(const TermSchedule&) const = default;
};

struct TermOptions {
  std::string kind = "outcome";
  std::string name;   // in metrics and records; empty = the kind
  double weight = 1;  // may be negative; finite
  TermSchedule schedule;
  std::vector<std::string> domains;  // the tasks' domains in which it counts; empty = in all
  // Options of single kinds.
  LengthOptions length;
  EffortOptions effort;
  OverlongOptions overlong;
  CompletionTimeOptions completion_time;
  RepetitionOptions repetition;
  LanguageMixingOptions language_mixing;
  ToggleOptions toggle;
  ParlParallelOptions parl_parallel;
  CriticalStepsOptions critical_steps;
  RetrievalOptions retrieval;
  JudgeOptions judge;
  ExternalOptions external;
  TeacherOptions teacher;

  const std::string& Name() const { return name.empty() ? kind : name; }
  bool operator==(const TermOptions&) const = default;
};

struct RewardOptions {
  std::vector<TermOptions> terms;  // empty = only the outcome, with weight 1
  double deadline_s = 600;         // for judging a complete group; after it the group fails
  int32_t concurrency = 4;         // groups that are judged at a time
  // The run ends after this many groups in a row failed because of one term that judged none of their episodes; 0 =
  // never.
  int32_t give_up_groups = 16;

  // True = the reward is the posted outcome, and no server is asked.
  bool outcome_alone() const;
  // INVALID_ARGUMENT names the option, its value and the allowed values. It also rejects names used twice, and weights
  // that cancel each other in otherwise equal terms.
  absl::Status Validate() const;
};

// The kinds that MakeTerm knows, for the schema and for errors.
const std::vector<std::string>& TermKinds();
// Same errors as RewardOptions::Validate.
absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options, const TermParts& parts = {});

}  // namespace ingot::reward
