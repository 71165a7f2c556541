// Computes one step's loss over its whole batch: the objective over the tokens that the masks keep (off_policy_mask.h),
// plus these penalties for every token t, masked or not:
//
//     w_t * kl_coefficient           * kl(x)    x = logprob_t - recorded_t
//     w_t * reference_kl_coefficient * kl(x)    x = reference_t - logprob_t
//   - w_t * entropy_coefficient      * entropy_t
//
// The first estimates KL(rollout policy || policy), and the second KL(policy || reference policy), using one KlKind.
// StepLoss keeps the objectives independent of forests, and the passes independent of losses. Does not use torch.
// Single-threaded. The batch must outlive this object.
//
//   StepLoss loss(objective, coefficients, batch);
//   if (loss.needs_reference()) for every forest: loss.RecordReference(entries, log-probs of the reference)
//   if (loss.needs_scores())    for every forest: loss.RecordCurrent(entries, log-probs);  then loss.Fix(...)
//   for every forest: AccumulateGradients(..., loss, ...)       calls Evaluate once per entry, in any order
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

// The interface between a pass and its loss.
class EntryLoss {
 public:
  virtual ~EntryLoss() = default;
  // Returns whether Evaluate reads `entropy` and fills in `by_entropy`.
  virtual bool uses_entropy() const = 0;
  // Returns these entries' contribution to the loss. Overwrites `by_logprob` and `by_entropy` with its derivatives with
  // respect to log-prob and entropy. All spans have one element per entry.
  virtual double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                          std::span<const double> entropy, std::span<double> by_logprob,
                          std::span<double> by_entropy) = 0;
};

// Estimators kl(x) of KL(p || q) for a token sampled from p, with x = log q - log p
// (http://joschu.net/blog/kl-approx.html; abs as in verl's kl_loss_type). All estimates are 0 where the policies agree.
// The means of k1 and k3 equal the divergence. k1 may be negative.
//
//   k1    -x                  k3    e^x - 1 - x
//   k2    x^2 / 2             abs   |x|
//
// The gradient flows only through x, not through the choice of the token. So the gradient of k1 with respect to the
// reference is the gradient of logprob_t. Its mean over the policy's own tokens is 0, so k1 does not constrain the
// policy. The mean of k2's gradient is the gradient of the divergence.
enum class KlKind { kK1, kK2, kK3, kAbs };

// REQUIRES: `name` is a valid TrainerOptions::kl_kind.
KlKind KlKindOf(const std::string& name);

struct KlTerm {
  double value = 0;
  double derivative = 0;  // with respect to x; for |x|, 0 at x = 0
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
  // `masks` are off by default. Sequence masks need the whole batch's log-probs, so they need scores.
  StepLoss(const Objective& objective, const LossCoefficients& coefficients, const PreparedBatch& batch,
           const OffPolicyMaskOptions& masks = {});

  bool needs_reference() const { return objective_.needs_reference() || coefficients_.reference_kl > 0; }
  bool needs_scores() const { return objective_.scope() == Objective::Scope::kBatch || masks_.of_sequences(); }

  void RecordReference(std::span<const tree::LossEntry> entries, std::span<const double> logprobs);
  void RecordCurrent(std::span<const tree::LossEntry> entries, std::span<const double> logprobs);
  // Returns the recorded log-prob of an entry, or 0 if none was recorded.
  double RecordedReference(const tree::LossEntry& entry) const;
  double RecordedCurrent(const tree::LossEntry& entry) const;
  // Evaluates the objective's loss and its derivatives at the recorded log-probs. The first call to Evaluate adds the
  // loss. If `counts` is false, another rank counts the loss and the objective's tallies. REQUIRES: all entries have
  // been recorded.
  void Fix(bool counts = true);

  bool uses_entropy() const override { return coefficients_.entropy > 0; }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                  std::span<const double> entropy, std::span<double> by_logprob, std::span<double> by_entropy) override;

  // Returns whether an entry bears loss. Forests contain only entries that do.
  static bool Bears(const PreparedBatch& batch, const tree::LossEntry& entry);

  const MetricSums& sums() const { return sums_; }
  // Returns the calls with a non-finite log-prob or derivative, as unique indices in the batch's calls.
  const std::vector<int32_t>& non_finite_calls() const { return non_finite_calls_; }

 private:
  size_t Slot(const tree::LossEntry& entry) const {
    return static_cast<size_t>(slots_[first_[static_cast<size_t>(entry.call)] + static_cast<size_t>(entry.offset)]);
  }
  LossEntries All() const;
  // Returns the objective's loss over the entries that the masks keep, and adds its derivative, which is 0 for the
  // other entries. If `counts`, adds the tallies of the masks and the objective.
  double PolicyLoss(const LossEntries& entries, std::span<double> derivative, bool counts);
  double Penalties(size_t slot, double logprob, double& derivative);
  void NoteNonFinite(int32_t call);

  const Objective& objective_;
  const LossCoefficients coefficients_;
  const PreparedBatch& batch_;
  const OffPolicyMaskOptions masks_;
  std::vector<size_t> first_;   // per call: the index of its first token in slots_
  std::vector<int32_t> slots_;  // per sampled token: its index in the vectors below; -1 = bears no loss
  // Per loss-bearing token, in (call, offset) order, so that sums do not depend on the forests:
  std::vector<double> recorded_, reference_, advantages_, weights_, current_;
  std::vector<int32_t> sequences_, calls_;
  std::vector<double> fixed_;  // the objective's derivative; empty before Fix
  double fixed_loss_ = 0;      // the objective's loss, until Evaluate adds it
  MetricSums sums_;
  std::vector<int32_t> non_finite_calls_;
};

}  // namespace ingot::trainer
