// The attention of one sequence of rows over itself, by tree attention; recurrences run along the same tree. For
// commands and tests: the trainer and rollout have their own.
#pragma once

#include <utility>

#include "model/attention_backend.h"

namespace ingot::model {

class SequenceAttention final : public AttentionBackend {
 public:
  // `visible_end`, `positions`: int32 [N] on the CPU, of a packed stream (kernels/attention/attention.h); undefined =
  // one causal sequence. Windows count positions.
  explicit SequenceAttention(at::Tensor visible_end = {}, at::Tensor positions = {})
      : visible_end_(std::move(visible_end)), positions_(std::move(positions)) {}

  at::Tensor Attend(int64_t layer, const AttentionInput& input) override;
  at::Tensor Recur(int64_t layer, const RecurrentInput& input) override;

 private:
  at::Tensor visible_end_, positions_;
};

}  // namespace ingot::model
