// Implements on-policy distillation: the student samples, and a teacher scores the sampled ids. The term gives no
// reward. Instead, it gives every sampled token an advantage, which is added to the rewards' advantage and is treated
// as a constant in the gradient:
//
//   value of token t = log p_teacher(t) - log p_student(t)
//
// Both are log_softmax(raw logits / T) at the call's temperature T. The student's value is the engine's log-prob at
// sampling time. The negated mean over tokens estimates the reverse KL divergence KL(student || teacher). See
// "On-policy distillation of language models" (arXiv 2306.13649) and Thinking Machines' post on on-policy distillation
// (2025), which introduced this per-token advantage.
//
// The teacher is a model in gateway.models: a pinned version of this run, or an external server. It must use the
// policy's tokenizer. If the fingerprints differ, the term does not apply and the group fails. Measures: `reverse_kl`,
// the mean over the episode's scored tokens, and `tokens`, their count. The teacher does not score calls that the
// trainer does not train on (sampled by other weights, encoded from text, or sampled with a penalty, bias, or grammar).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reward/teacher_model.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

struct TeacherOptions {
  std::string model;
  double timeout_s = 60;
  int32_t concurrency = 8;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, TeacherOptions& options);

class TeacherTerm final : public RewardTerm {
 public:
  TeacherTerm(const TeacherOptions& options, const TermParts& parts) : options_(options), model_(parts.teacher) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  absl::Status CheckTokenizer(const GroupFacts& group) const;

  const TeacherOptions options_;
  const std::shared_ptr<const TeacherModel> model_;
};

}  // namespace ingot::reward
