#include "app/run/eval_options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/config.h"

namespace ingot::app {
namespace {

// The names are used in metrics.
absl::Status CheckSets(const std::map<std::string, std::string>& sets) {
  for (const auto& [name, path] : sets) {
    const auto fits = [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    };
    if (name.empty() || name.size() > 64 || !std::all_of(name.begin(), name.end(), fits)) {
      return absl::InvalidArgumentError(absl::StrCat("eval.tasks: the set '", name,
                                                     "' needs a name of 1 to 64 letters, ",
                                                     "digits, dots, hyphens and underscores"));
    }
    if (path.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("eval.tasks: the set '", name, "' has no file: name its JSONL file"));
  }
  return absl::OkStatus();
}

}  // namespace

void Bind(base::Schema& schema, EvalOptions& o) {
  schema.Field("tasks", &o.tasks, &o.sets,
               "JSONL file with held-out tasks, which are never trained on, or several files by name, such as {aime: "
               "a.jsonl, code: b.jsonl}; empty: no evaluation");
  schema.Field("every_versions", &o.every_versions,
               "evaluate every version that is a multiple of this, on pinned weights; 0: only the last version",
               base::NotNegative());
  schema.Field("at_start", &o.at_start,
               "also evaluate the weights before the first step, on pinned weights (a multiple of every_versions)");
  schema.Field("avg_n", &o.avg_n, "samples per held-out task; their mean is reported", base::Positive());
  schema.Field("keep_best", &o.keep_best,
               "keep the model with the best held-out reward so far in RUN/checkpoints/best");
  schema.Field("success", &o.success, "minimum reward of a successful sample, for eval/pass@k; no effect on training");
}

void Bind(base::Schema& schema, GoalOptions& o) {
  schema.Field("first_steps", &o.first_steps, "number of first steps in the goal; 0: none", base::NotNegative());
  schema.Field("first_reward_below", &o.first_reward_below, "their mean reward must be below this");
  schema.Field("last_steps", &o.last_steps, "number of last steps in the goal; 0: none", base::NotNegative());
  schema.Field("eval_above", &o.eval_above,
               "the held-out reward of the last version must be above this; -1e9: no goal");
  schema.Field("last_reward_above", &o.last_reward_above,
               "their mean reward must be above this, or the command exits with 1");
}

std::vector<std::string> AllFiles(const std::string& first, const std::vector<std::string>& more) {
  std::vector<std::string> files;
  if (first.empty()) return files;
  files.push_back(first);
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

std::map<std::string, std::vector<std::string>> EvalOptions::Files() const {
  if (!tasks.empty()) return {{"", AllFiles(tasks, more_tasks)}};
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, path] : sets) files[name] = {path};
  return files;
}

absl::Status EvalOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this), "eval"));
  INGOT_RETURN_IF_ERROR(CheckSets(sets));
  if (keep_best && !has_tasks()) {
    return absl::InvalidArgumentError(
        "eval.keep_best has no effect without eval.tasks: name held-out tasks, or remove eval.keep_best");
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
