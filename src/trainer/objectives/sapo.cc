#include <cmath>

#include "trainer/objectives/objective.h"

namespace ingot::trainer {
namespace {

// SAPO, arXiv 2511.20347: the gate replaces the clip.
class Sapo final : public Objective {
 public:
  Sapo(double tau_positive, double tau_negative) : tau_positive_(tau_positive), tau_negative_(tau_negative) {}

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    double loss = 0;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const Gate gate = At(std::exp(e.logprobs[i] - e.recorded[i]), e.advantages[i]);
      const double scale = e.weights[i] * e.advantages[i];
      loss -= scale * gate.value;
      derivative[i] -= scale * gate.derivative;
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const double ratio = std::exp(e.logprobs[i] - e.recorded[i]);
      sums.means["sapo/ratio_mean"].Add(ratio);
      sums.maxima["sapo/ratio_max"].Add(ratio);
      sums.means["sapo/gate_mean"].Add(At(ratio, e.advantages[i]).openness);
    }
  }

  std::string Describe() const override {
    return absl::StrCat("sapo, a soft gate of temperature ", tau_positive_, " for positive and ", tau_negative_,
                        " for other advantages per token, no clip");
  }

 private:
  struct Gate {
    double value = 0;       // f(r) = 4 / tau * sigmoid(tau * (r - 1))
    double derivative = 0;  // with respect to log r: openness * r
    double openness = 0;    // df/dr = 4 * sigmoid * (1 - sigmoid): 1 at r = 1, less on both sides
  };

  Gate At(double ratio, double advantage) const {
    const double tau = advantage > 0 ? tau_positive_ : tau_negative_;
    const double z = tau * (ratio - 1);
    const double tail = std::exp(-std::abs(z));  // does not overflow for either sign
    const double openness = 4 * tail / ((1 + tail) * (1 + tail));
    const double sigmoid = (z >= 0 ? 1 : tail) / (1 + tail);
    return {4 / tau * sigmoid, tail == 0 ? 0 : openness * ratio, openness};
  }

  const double tau_positive_;
  const double tau_negative_;
};

}  // namespace

std::unique_ptr<Objective> MakeSapo(double tau_positive, double tau_negative) {
  return std::make_unique<Sapo>(tau_positive, tau_negative);
}

}  // namespace ingot::trainer
