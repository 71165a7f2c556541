// A model as a judge, with rubrics as in Kimi K2.5. It reasons before its verdict: in the spot checks of Kimi k1.5 (arXiv
// 2501.12599, section 2.3.3) such a judge was right in 98.5 % of cases, a value head in 84.4 %.
//
//   value = mean score over the rubrics that did not abstain, in [0, 1]
//
// One rubric per request, temperature 0, a JSON verdict with the reasoning first (verdict.h). After an unusable answer
// the term asks once more; then the rubric fails, and the episode is an error, never a 0. If every rubric abstains, the
// episode is an error too. Measures: `disagreement`, the standard deviation over the rubrics, and `abstained`.
//
// The judge sees the task's question and reference, and the content of the policy's last call that has content, without
// its claims about itself. Equal responses are judged once (verdicts.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reward/judge_model.h"
#include "reward/term.h"
#include "reward/term_parts.h"
#include "reward/terms/verdict.h"
#include "reward/terms/verdicts.h"

namespace ingot::reward {

struct JudgeOptions {
  JudgeServer server;
  std::vector<std::string> rubrics = {"The response comes to the same result as the reference."};  // at least one
  std::string question_field = "question";  // dotted path; empty = the judge sees no question
  std::string reference_field = "answer";   // dotted path
  int32_t concurrency = 4;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, JudgeOptions& options);

class JudgeTerm final : public RewardTerm {
 public:
  JudgeTerm(const JudgeOptions& options, const TermParts& parts)
      : options_(options),
        model_(parts.judge),
        verdicts_(parts.verdicts == nullptr ? std::make_shared<Verdicts>() : parts.verdicts) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  absl::StatusOr<JudgeVerdict> VerdictOf(const JudgeCase& one) const;
  TermResult Combine(const std::vector<JudgeVerdict>& verdicts) const;

  const JudgeOptions options_;
  const std::shared_ptr<const JudgeModel> model_;
  const std::shared_ptr<Verdicts> verdicts_;
};

}  // namespace ingot::reward
