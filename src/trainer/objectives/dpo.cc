#include <cmath>

#include "trainer/objectives/objective.h"
#include "trainer/objectives/sequence_sums.h"

namespace ingot::trainer {
namespace {

// Returns log(1 + e^x) without overflow.
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// DPO, arXiv 2305.18290, eq. 7, over pairs of sequences.
class Dpo final : public Objective {
 public:
  explicit Dpo(double beta) : beta_(beta) {}

  Scope scope() const override { return Scope::kBatch; }
  bool needs_reference() const override { return true; }

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    const std::vector<SequenceSums> sequences = SumSequences(e, e.reference);
    const double weight = 1.0 / static_cast<double>(e.preferences.size());
    std::vector<double> by_sequence(sequences.size(), 0.0);  // derivative with respect to the sequence's log-prob
    double loss = 0;
    for (const Preference& pair : e.preferences) {
      const double margin = Margin(sequences, pair);
      loss += weight * Softplus(-margin);
      const double pull = weight * beta_ / (1.0 + std::exp(margin));  // beta * sigmoid(-margin)
      by_sequence[static_cast<size_t>(pair.chosen)] -= pull;
      by_sequence[static_cast<size_t>(pair.rejected)] += pull;
    }
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      derivative[i] += by_sequence[static_cast<size_t>(e.sequences[i])];
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    const std::vector<SequenceSums> sequences = SumSequences(e, e.reference);
    for (const Preference& pair : e.preferences) {
      const double margin = Margin(sequences, pair);
      sums.means["dpo/accuracy"].Add(margin > 0 ? 1.0 : margin == 0 ? 0.5 : 0.0);
      sums.means["dpo/margin_mean"].Add(margin);
    }
  }

  std::string Describe() const override { return absl::StrCat("dpo, no clip, beta ", beta_); }

 private:
  double Margin(const std::vector<SequenceSums>& sequences, const Preference& pair) const {
    return beta_ * (sequences[static_cast<size_t>(pair.chosen)].log_ratio -
                    sequences[static_cast<size_t>(pair.rejected)].log_ratio);
  }

  const double beta_;
};

}  // namespace

std::unique_ptr<Objective> MakeDpo(double beta) { return std::make_unique<Dpo>(beta); }

}  // namespace ingot::trainer
