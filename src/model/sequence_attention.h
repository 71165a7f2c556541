// Self-attention over one sequence of rows, using tree attention. Recurrences run along the same tree. For commands and
// tests; the trainer and rollout have their own implementations.
#pragma once

#include <utility>

#include "kernels/torch/attention_plans.h"
#include "model/attention_backend.h"

namespace ingot::model {

class SequenceAttention final : public AttentionBackend {
 public:
  // `visible_end` and `positions` are int32 [N] on the CPU, from a packed stream (kernels/attention/attention.h).
  // Undefined = one causal sequence. Windows count positions.
  explicit SequenceAttention(at::Tensor visible_end = {}, at::Tensor positions = {})
      : visible_end_(std::move(visible_end)), positions_(std::move(positions)) {}

  at::Tensor Attend(int64_t layer, const AttentionInput& input) override;
  at::Tensor Recur(int64_t layer, const RecurrentInput& input) override;

 private:
  at::Tensor visible_end_, positions_;
  // Depends on the number of rows too, so calls of different lengths have different plans.
  const c10::intrusive_ptr<kernels::AttentionPlans> plans_ = c10::make_intrusive<kernels::AttentionPlans>();
};

}  // namespace ingot::model
