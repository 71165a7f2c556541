#include "trainer/objectives/step_loss.h"

#include <algorithm>
#include <cmath>

#include "trainer/objectives/off_policy_mask.h"

namespace ingot::trainer {

KlKind KlKindOf(const std::string& name) {
  if (name == "k1") return KlKind::kK1;
  if (name == "k2") return KlKind::kK2;
  return name == "abs" ? KlKind::kAbs : KlKind::kK3;
}

KlTerm KlAt(KlKind kind, double x) {
  if (kind == KlKind::kK1) return {-x, -1};
  if (kind == KlKind::kK2) return {x * x / 2, x};
  if (kind == KlKind::kAbs) return {std::abs(x), x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0};
  const double grown = std::expm1(x);
  return {grown - x, grown};
}

LossCoefficients CoefficientsOf(const TrainerOptions& options) {
  return {options.kl_coefficient, options.reference_kl_coefficient, options.entropy_coefficient,
          KlKindOf(options.kl_kind)};
}

StepLoss::StepLoss(const Objective& objective, const LossCoefficients& coefficients, const PreparedBatch& batch,
                   const OffPolicyMaskOptions& masks)
    : objective_(objective), coefficients_(coefficients), batch_(batch), masks_(masks) {
  for (size_t c = 0; c < batch.calls.size(); ++c) {
    const tree::CallPath& call = batch.calls[c];
    first_.push_back(slots_.size());
    for (size_t offset = 0; offset < call.logprobs.size(); ++offset) {
      if (!Bears(batch, {0, 0, static_cast<int32_t>(c), static_cast<int32_t>(offset)})) {
        slots_.push_back(-1);
        continue;
      }
      slots_.push_back(static_cast<int32_t>(recorded_.size()));
      recorded_.push_back(static_cast<double>(call.logprobs[offset]));
      const bool own = !batch.token_advantages.empty() && !batch.token_advantages[c].empty();
      advantages_.push_back(batch.advantages[c] + (own ? batch.token_advantages[c][offset] : 0.0));
      weights_.push_back(batch.weights[c]);
      sequences_.push_back(call.episode);
      calls_.push_back(static_cast<int32_t>(c));
    }
  }
}

bool StepLoss::Bears(const PreparedBatch& batch, const tree::LossEntry& entry) {
  const std::vector<uint8_t>& mask = batch.bears_loss[static_cast<size_t>(entry.call)];
  return mask.empty() || mask[static_cast<size_t>(entry.offset)] != 0;
}

void StepLoss::RecordReference(std::span<const tree::LossEntry> entries, std::span<const double> logprobs) {
  reference_.resize(recorded_.size());
  for (size_t i = 0; i < entries.size(); ++i) reference_[Slot(entries[i])] = logprobs[i];
}

void StepLoss::RecordCurrent(std::span<const tree::LossEntry> entries, std::span<const double> logprobs) {
  current_.resize(recorded_.size());
  for (size_t i = 0; i < entries.size(); ++i) current_[Slot(entries[i])] = logprobs[i];
}

LossEntries StepLoss::All() const {
  LossEntries all{current_, recorded_,  reference_,      advantages_,
                  weights_, sequences_, batch_.episodes, batch_.preferences};
  all.calls = calls_;
  return all;
}

double StepLoss::RecordedReference(const tree::LossEntry& entry) const {
  return reference_.empty() ? 0.0 : reference_[Slot(entry)];
}

double StepLoss::RecordedCurrent(const tree::LossEntry& entry) const {
  return current_.empty() ? 0.0 : current_[Slot(entry)];
}

double StepLoss::PolicyLoss(const LossEntries& entries, std::span<double> derivative, bool counts) {
  if (!masks_.on()) {
    const double loss = objective_.Loss(entries, derivative);
    if (counts) objective_.Tally(entries, sums_);
    return loss;
  }
  const KeptEntries kept(entries, masks_);
  const std::vector<size_t>& places = kept.places();
  std::vector<double> of_kept(places.size(), 0.0);
  const double loss = objective_.Loss(kept.entries(), of_kept);
  for (size_t i = 0; i < places.size(); ++i) derivative[places[i]] += of_kept[i];
  if (counts) {
    kept.Tally(sums_);
    objective_.Tally(kept.entries(), sums_);
  }
  return loss;
}

void StepLoss::Fix(bool counts) {
  fixed_.assign(recorded_.size(), 0.0);
  const double loss = PolicyLoss(All(), fixed_, counts);
  fixed_loss_ = counts ? loss : 0.0;
}

double StepLoss::Penalties(size_t slot, double logprob, double& derivative) {
  double loss = 0;
  if (coefficients_.kl > 0) {
    const KlTerm term = KlAt(coefficients_.kl_kind, logprob - recorded_[slot]);
    loss += coefficients_.kl * weights_[slot] * term.value;
    derivative += coefficients_.kl * weights_[slot] * term.derivative;
  }
  if (coefficients_.reference_kl > 0) {
    const KlTerm term = KlAt(coefficients_.kl_kind, reference_[slot] - logprob);
    loss += coefficients_.reference_kl * weights_[slot] * term.value;
    derivative -= coefficients_.reference_kl * weights_[slot] * term.derivative;
    sums_.means["actor/reference_kl"].Add(term.value);
  }
  return loss;
}

double StepLoss::Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                          std::span<const double> entropy, std::span<double> by_logprob, std::span<double> by_entropy) {
  std::fill(by_logprob.begin(), by_logprob.end(), 0.0);
  double loss = std::exchange(fixed_loss_, 0.0);
  if (needs_scores()) {
    for (size_t i = 0; i < entries.size(); ++i) by_logprob[i] = fixed_[Slot(entries[i])];
  } else {
    std::vector<double> recorded, reference, advantages, weights;
    std::vector<int32_t> sequences, calls;
    for (const tree::LossEntry& entry : entries) {
      const size_t slot = Slot(entry);
      recorded.push_back(recorded_[slot]);
      if (!reference_.empty()) reference.push_back(reference_[slot]);
      advantages.push_back(advantages_[slot]);
      weights.push_back(weights_[slot]);
      sequences.push_back(sequences_[slot]);
      calls.push_back(calls_[slot]);
    }
    LossEntries piece{logprobs, recorded, reference, advantages, weights, sequences, batch_.episodes, {}};
    piece.calls = calls;
    loss += PolicyLoss(piece, by_logprob, /*counts=*/true);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t slot = Slot(entries[i]);
    loss += Penalties(slot, logprobs[i], by_logprob[i]);
    if (uses_entropy()) {
      by_entropy[i] = -coefficients_.entropy * weights_[slot];
      loss += by_entropy[i] * entropy[i];
    }
    if (!std::isfinite(logprobs[i]) || !std::isfinite(by_logprob[i])) NoteNonFinite(entries[i].call);
  }
  return loss;
}

void StepLoss::NoteNonFinite(int32_t call) {
  if (std::find(non_finite_calls_.begin(), non_finite_calls_.end(), call) == non_finite_calls_.end()) {
    non_finite_calls_.push_back(call);
  }
}

}  // namespace ingot::trainer
