#include "trainer/objectives/objective.h"
#include "trainer/objectives/sequence_sums.h"

namespace ingot::trainer {
namespace {

// Online policy mirror descent, arXiv 2501.12599, eq. 3. A sequence's log_ratio is d in objective.h.
class Opmd final : public Objective {
 public:
  explicit Opmd(double tau) : tau_(tau) {}

  Scope scope() const override { return Scope::kBatch; }

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    const std::vector<SequenceSums> sequences = SumSequences(e, e.recorded);
    double loss = 0;
    for (const SequenceSums& s : sequences) loss += s.weight * 0.5 * tau_ * s.log_ratio * s.log_ratio;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const SequenceSums& s = sequences[static_cast<size_t>(e.sequences[i])];
      loss -= s.weight * e.advantages[i] * e.logprobs[i];
      derivative[i] -= s.weight * (e.advantages[i] - tau_ * s.log_ratio);
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    for (const SequenceSums& s : SumSequences(e, e.recorded)) {
      if (s.tokens == 0) continue;
      sums.means["opmd/log_ratio_mean"].Add(s.log_ratio);
      sums.means["opmd/penalty_mean"].Add(0.5 * tau_ * s.log_ratio * s.log_ratio);
    }
  }

  std::string Describe() const override {
    return absl::StrCat("opmd, no clip, squared sequence log-ratio times tau / 2 = ", 0.5 * tau_);
  }

 private:
  const double tau_;
};

}  // namespace

std::unique_ptr<Objective> MakeOpmd(double tau) { return std::make_unique<Opmd>(tau); }

}  // namespace ingot::trainer
