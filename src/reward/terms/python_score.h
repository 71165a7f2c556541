// A score from the user's Python function (reward/python/python_function.h), which sees a whole group:
//
//   def score(episodes, group_id): ...     the arguments that it wants, by name
//
// `episodes` is the list of the group's finished episodes in the form of user_scores.h. The function returns a list with
// an entry for each: a number, {"score": number, "detail"?: text, "calls"?: {CALL_ID: number}}, or None for an episode
// that it cannot judge, which is left out of the group. An exception, another result and a call past timeout_s are
// errors of all of them, never a 0.
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

  // The names that a function may use.
  static std::vector<std::string> Arguments() { return {"group_id", "episodes"}; }

 private:
  const std::shared_ptr<sandbox::Substrate> substrate_;  // outlives the function's processes
  const PythonFunction function_;
};

}  // namespace ingot::reward
