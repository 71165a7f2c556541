#include "trainer/path_backend.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "kernels/torch/tree_attention.h"
#include "tree/strands.h"

namespace ingot::trainer {
namespace {

at::Tensor IntTensor(std::span<const int32_t> values) {
  return at::from_blob(const_cast<int32_t*>(values.data()), {static_cast<int64_t>(values.size())}, at::kInt).clone();
}

kernels::TreeAttentionOptions OptionsOf(std::span<const int32_t> visible_end, int64_t head_dim, int32_t first_query) {
  kernels::TreeAttentionOptions options;
  options.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  options.visible_end = IntTensor(visible_end);
  options.q_offset = first_query;
  return options;
}

class FastAttention final : public model::AttentionBackend {
 public:
  explicit FastAttention(kernels::TreeAttentionOptions options) : options_(std::move(options)) {}
  at::Tensor Attend(int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return kernels::TreeAttention(q, k, v, options_);
  }

 private:
  const kernels::TreeAttentionOptions options_;
};

class ExactAttention final : public model::AttentionBackend {
 public:
  ExactAttention(kernels::TreeAttentionOptions options, const tree::StrandPlan& plan, int32_t first_query)
      : options_(std::move(options)) {
    runs_.reserve(plan.runs.size());
    for (const tree::PathRun& run : plan.runs) runs_.push_back({run.depth, run.row});
    for (const tree::Strand& strand : plan.strands) {
      kernels::AttentionSequence& path = paths_.emplace_back();
      path.q_begin = strand.first_query - first_query;
      path.q_count = strand.queries;
      path.q_offset = strand.depth;
      path.key_count = strand.keys();
      path.key_runs = runs_.data() + strand.first_run;
      path.key_run_count = strand.runs;
    }
  }
  at::Tensor Attend(int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return kernels::PathAttention(q, k, v, paths_, options_);
  }

 private:
  const kernels::TreeAttentionOptions options_;
  std::vector<kernels::KeyRun> runs_;
  std::vector<kernels::AttentionSequence> paths_;  // point into runs_
};

}  // namespace

std::unique_ptr<model::AttentionBackend> StreamAttention(kernels::Numerics numerics, std::span<const int32_t> positions,
                                                         std::span<const int32_t> visible_end, int64_t head_dim,
                                                         int32_t first_query) {
  kernels::TreeAttentionOptions options = OptionsOf(visible_end, head_dim, first_query);
  if (numerics == kernels::Numerics::kFast) return std::make_unique<FastAttention>(std::move(options));
  return std::make_unique<ExactAttention>(std::move(options), tree::PlanStrands(positions, first_query), first_query);
}

}  // namespace ingot::trainer
