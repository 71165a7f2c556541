// Masks of the policy loss, the same for every objective: they leave out tokens from which the policy has moved too far
// since they were sampled. Plain functions over doubles, without torch.
//
//   r_t = exp(logprob_t - recorded_t)       d = mean over the sequence of logprob_t - recorded_t
//
//   mask_token_ratio_*      the token, if r_t is outside [low, high]                      (IcePop, arXiv 2510.18855)
//   mask_sequence_ratio_*   the sequence, if exp(d) is outside [low, high]     (MIS; geometric rejection, as in verl)
//   opsm_delta              a sequence's tokens of negative advantage, if -d > delta (DeepSeek-V3.2, arXiv 2512.02556)
//
// The mean d is over all loss tokens of the sequence, including tokens that another mask leaves out. A mask is a
// constant: it has no derivative. To the objective a masked token is not part of its sequence; the weights of the
// others stay as they were. A log-prob that is not a number masks nothing, so that its step is skipped and its call
// named.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"

namespace ingot::trainer {

// The entries that the masks keep. Owns their numbers.
class KeptEntries {
 public:
  // REQUIRES: `entries` are the whole batch if masks.of_sequences(); otherwise any piece of it. The preferences that
  // they refer to must outlive this.
  KeptEntries(const LossEntries& entries, const OffPolicyMaskOptions& masks);

  // For the objective: sequence_weights cover all `entries`.
  LossEntries entries() const;
  // Per kept entry, its place among all of them; ascending.
  const std::vector<size_t>& places() const { return places_; }
  // Adds the share of all entries that are masked, offpolicy/masked, and the share of each mask that is on: offpolicy/
  // masked_token, masked_sequence and masked_opsm. An entry may count for several.
  void Tally(MetricSums& sums) const;

 private:
  // The masks that leave out an entry, as bits.
  static constexpr unsigned kToken = 1, kSequence = 2, kOpsm = 4;

  const OffPolicyMaskOptions masks_;
  const int32_t sequence_count_;
  const std::span<const Preference> preferences_;
  std::vector<uint8_t> masked_;           // per entry, the masks that leave it out; 0 = kept
  std::vector<double> sequence_weights_;  // per sequence, masked tokens included
  std::vector<size_t> places_;
  // Per kept entry:
  std::vector<double> logprobs_, recorded_, reference_, advantages_, weights_;
  std::vector<int32_t> sequences_;
};

}  // namespace ingot::trainer
