// Uses a model as a judge, with rubrics as in Kimi K2.5. The judge reasons before its verdict. In Kimi k1.5's spot
// checks (arXiv 2501.12599, section 2.3.3), such a judge was right 98.5% of the time, and a value head 84.4%.
//
//   value = mean score over the rubrics that did not abstain, in [0, 1]
//
// Each request has one rubric, at temperature 0, and requests a JSON verdict with the reasoning first (verdict.h).
// After an unusable response, the term retries once. If the second response is also unusable, the episode's result is
// an error, never a 0. The result is also an error if every rubric abstains. Measures: `disagreement`, the standard
// deviation across rubrics, and `abstained`.
//
// The judge sees the task's question and reference, and the content of the policy's last call with content. Claims in
// the content about its own correctness are removed. Identical responses are judged only once (verdicts.h).
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
  std::vector<std::string> rubrics = {"The response comes to the same result as the reference."};  // not empty
  std::string question_field = "question";  // dotted path; empty = the judge does not see the question
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
