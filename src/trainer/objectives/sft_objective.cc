#include "trainer/objectives/objective.h"

namespace ingot::trainer {
namespace {

// Weighted cross entropy of the target tokens.
class Sft final : public Objective {
 public:
  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    double loss = 0;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      loss -= e.weights[i] * e.logprobs[i];
      derivative[i] -= e.weights[i];
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    MeanMax& nll = sums.means["sft/nll"];
    for (const double logprob : e.logprobs) nll.Add(-logprob);
  }

  std::string Describe() const override { return "sft, cross entropy"; }
};

}  // namespace

std::unique_ptr<Objective> MakeSft() { return std::make_unique<Sft>(); }

}  // namespace ingot::trainer
