// The loss of one step over the entries of its whole batch: the objective, of the tokens that the masks keep
// (off_policy_mask.h), and per token t, masked or not, these penalties.
//
//     w_t * kl_coefficient           * kl(x)    x = logprob_t - recorded_t
//     w_t * reference_kl_coefficient * kl(x)    x = reference_t - logprob_t
//   - w_t * entropy_coefficient      * entropy_t
//
// The first estimates KL(rollout policy || policy), the second KL(policy || reference policy), by one of KlKind.
// StepLoss separates the objectives, which know no forests, from the passes, which know no losses. No torch. One
// thread; the batch must outlive it.
//
//   StepLoss loss(objective, coefficients, batch);
//   if (loss.needs_reference()) for every forest: loss.RecordReference(entries, log-probs of the reference)
//   if (loss.needs_scores())    for every forest: loss.RecordCurrent(entries, log-probs);  then loss.Fix(...)
//   for every forest: AccumulateGradients(..., loss, ...)                 asks Evaluate, in any order, each entry once
//   loss.sums(), loss.non_finite_calls()
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/batch.h"
#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The interface of a pass to its loss.
class EntryLoss {
 public:
  virtual ~EntryLoss() = default;
  // True = Evaluate reads `entropy` and fills `by_entropy`.
  virtual bool uses_entropy() const = 0;
  // Returns the share of these entries in the loss. Writes (does not add) its derivatives by log-prob and entropy. All
  // spans have an element per entry.
  virtual double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                          std::span<const double> entropy, std::span<double> by_logprob,
                          std::span<double> by_entropy) = 0;
};

// Estimates kl(x) of KL(p || q) from a token that p sampled, with x = log q - log p
// (http://joschu.net/blog/kl-approx.html; abs as in verl's kl_loss_type). All are 0 where the policies agree. k1 and k3
// have the divergence as their mean; k1 may be negative.
//
//   k1    -x                  k3    e^x - 1 - x
//   k2    x^2 / 2             abs   |x|
//
// A gradient goes only through x, not through the draw of the token. So the gradient of k1 to the reference is the
// gradient of logprob_t, whose mean over the policy's own tokens is 0: k1 does not hold the policy back. The gradient
// of k2 has the divergence's gradient as its mean.
enum class KlKind { kK1, kK2, kK3, kAbs };

// REQUIRES: TrainerOptions::kl_kind as Validate allows it.
KlKind KlKindOf(const std::string& name);

struct KlTerm {
  double value = 0;
  double derivative = 0;  // by x; of |x| at 0: 0
};
KlTerm KlAt(KlKind kind, double x);

struct LossCoefficients {
  double kl = 0;
  double reference_kl = 0;
  double entropy = 0;
  KlKind kl_kind = KlKind::kK3;
};

LossCoefficients CoefficientsOf(const TrainerOptions& options);

class StepLoss final : public EntryLoss {
 public:
  // `masks`: off unless given. Masks of sequences take the log-probs of the whole batch, so they need scores.
  StepLoss(const Objective& objective, const LossCoefficients& coefficients, const PreparedBatch& batch,
           const OffPolicyMaskOptions& masks = {});

  bool needs_reference() const { return objective_.needs_reference() || coefficients_.reference_kl > 0; }
  bool needs_scores() const { return objective_.scope() == Objective::Scope::kBatch || masks_.of_sequences(); }

  void RecordReference(std::span<const tree::LossEntry> entries, std::span<const double> logprobs);
  void RecordCurrent(std::span<const tree::LossEntry> entries, std::span<const double> logprobs);
  // The recorded log-prob of an entry; 0 if none was recorded.
  double RecordedReference(const tree::LossEntry& entry) const;
  double RecordedCurrent(const tree::LossEntry& entry) const;
  // REQUIRES: all entries were recorded. Asks the objective for its loss, which the first call of Evaluate adds, and
  // its derivatives at the recorded log-probs. `counts` false: another rank counts the loss and the objective's
  // tallies.
  void Fix(bool counts = true);

  bool uses_entropy() const override { return coefficients_.entropy > 0; }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                  std::span<const double> entropy, std::span<double> by_logprob, std::span<double> by_entropy) override;

  // Whether an entry bears loss; forests hold only entries that do.
  static bool Bears(const PreparedBatch& batch, const tree::LossEntry& entry);

  const MetricSums& sums() const { return sums_; }
  // Calls with a log-prob or a derivative that is not finite: indices into the batch's calls, each once.
  const std::vector<int32_t>& non_finite_calls() const { return non_finite_calls_; }

 private:
  size_t Slot(const tree::LossEntry& entry) const {
    return static_cast<size_t>(slots_[first_[static_cast<size_t>(entry.call)] + static_cast<size_t>(entry.offset)]);
  }
  LossEntries All() const;
  // The objective's loss of the entries that the masks keep. Adds its derivative, which is 0 for the others. `counts`:
  // adds the tallies of masks and objective.
  double PolicyLoss(const LossEntries& entries, std::span<double> derivative, bool counts);
  double Penalties(size_t slot, double logprob, double& derivative);
  void NoteNonFinite(int32_t call);

  const Objective& objective_;
  const LossCoefficients coefficients_;
  const PreparedBatch& batch_;
  const OffPolicyMaskOptions masks_;
  std::vector<size_t> first_;   // per call, the place of its first token in slots_
  std::vector<int32_t> slots_;  // per sampled token, its place in the vectors below; -1 = bears no loss
  // Per token that bears loss, in the order of (call, offset), so that sums do not depend on the forests:
  std::vector<double> recorded_, reference_, advantages_, weights_, current_;
  std::vector<int32_t> sequences_;
  std::vector<double> fixed_;  // the objective's derivative; empty before Fix
  double fixed_loss_ = 0;      // the objective's loss, until Evaluate has added it
  MetricSums sums_;
  std::vector<int32_t> non_finite_calls_;
};

}  // namespace ingot::trainer
