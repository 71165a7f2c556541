#include <ATen/ATen.h>

#include "trainer/objective.h"

namespace ingot::trainer {
namespace {

class Sft final : public Objective {
 public:
  at::Tensor Loss(const LossEntries& entries) const override { return -(entries.weights * entries.logprobs).sum(); }

  void Tally(std::span<const double> logprobs, std::span<const double>, MetricSums& sums) const override {
    MeanMax& nll = sums.means["sft/nll"];
    for (double logprob : logprobs) nll.Add(-logprob);
  }
};

}  // namespace

std::unique_ptr<Objective> MakeSft() { return std::make_unique<Sft>(); }

}  // namespace ingot::trainer
