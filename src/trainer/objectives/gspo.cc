#include <algorithm>
#include <cmath>

#include "trainer/objectives/clip.h"
#include "trainer/objectives/objective.h"
#include "trainer/objectives/sequence_sums.h"

namespace ingot::trainer {
namespace {

// GSPO, arXiv 2507.18071, eq. 5: the clipped surrogate of one ratio per sequence.
class Gspo final : public Objective {
 public:
  Gspo(double eps_clip_low, double eps_clip_high) : clip_{1.0 - eps_clip_low, 1.0 + eps_clip_high, 0} {}

  Scope scope() const override { return Scope::kBatch; }

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    const std::vector<double> ratios = Ratios(e);
    double loss = 0;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      // ds/dlogprob = s / tokens for each token of the sequence. With equal weights within a sequence, the sum of w_t *
      // s / tokens over its tokens is w_t * s, which is one token's share.
      const Surrogate term = clip_.At(ratios[static_cast<size_t>(e.sequences[i])], e.advantages[i]);
      loss -= e.weights[i] * term.value;
      derivative[i] -= e.weights[i] * term.derivative;
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    const std::vector<double> ratios = Ratios(e);
    ClipTally tally("gspo", sums);
    for (const double ratio : ratios) {
      if (!std::isnan(ratio)) tally.AddRatio(ratio);
    }
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const Surrogate term = clip_.At(ratios[static_cast<size_t>(e.sequences[i])], e.advantages[i]);
      tally.AddToken(term.clipped_low, term.clipped_high);
    }
  }

  std::string Describe() const override {
    return absl::StrCat("gspo, importance ratio clipped to [", std::max(clip_.low, 0.0), ", ", clip_.high,
                        "] per sequence");
  }

 private:
  // Returns one ratio per sequence. NaN = a sequence without tokens.
  static std::vector<double> Ratios(const LossEntries& e) {
    std::vector<double> ratios;
    for (const SequenceSums& sum : SumSequences(e, e.recorded)) {
      ratios.push_back(std::exp(sum.log_ratio / static_cast<double>(sum.tokens)));
    }
    return ratios;
  }

  const ClipRange clip_;
};

}  // namespace

std::unique_ptr<Objective> MakeGspo(double eps_clip_low, double eps_clip_high) {
  return std::make_unique<Gspo>(eps_clip_low, eps_clip_high);
}

}  // namespace ingot::trainer
