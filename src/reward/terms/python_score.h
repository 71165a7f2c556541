// Gets scores from the user's Python function (reward/python/python_function.h), which sees an entire group:
//
//   def score(episodes, group_id): ...     lists the arguments that it needs
//
// `episodes` is the list of the group's finished episodes in the format of user_scores.h. The function returns a list
// with one entry per episode: a number, {"score": number, "detail"?: text, "calls"?: {CALL_ID: number}}, or None if it
// cannot judge the episode, which is then left out of the group. An exception, any other result, or a call that exceeds
// timeout_s is an error for all episodes, never a 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reward/python/python_function.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

struct PythonScoreOptions : PythonOptions {};

void Bind(base::Schema& schema, PythonScoreOptions& options);

class PythonTerm final : public RewardTerm {
 public:
  PythonTerm(const PythonScoreOptions& options, const TermParts& parts)
      : substrate_(parts.substrate), function_(options, "python") {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

  // The argument names that a function may use.
  static std::vector<std::string> Arguments() { return {"group_id", "episodes"}; }

 private:
  const std::shared_ptr<sandbox::Substrate> substrate_;  // must outlive the function's processes
  const PythonFunction function_;
};

}  // namespace ingot::reward
