// Defines masks for the policy loss, for all objectives. They remove tokens if the policy has changed too much since
// they were sampled. Plain functions over doubles, without torch.
//
//   r_t = exp(logprob_t - recorded_t)       d = mean over the sequence of logprob_t - recorded_t
//
//   mask_token_ratio_*      the token, if r_t is outside [low, high]                      (IcePop, arXiv 2510.18855)
//   mask_sequence_ratio_*   the sequence, if exp(d) is outside [low, high]     (MIS; geometric rejection, as in verl)
//   opsm_delta              a sequence's negative-advantage tokens, if -d > delta (DeepSeek-V3.2, arXiv 2512.02556)
//
// The mean d covers all loss tokens in the sequence, including tokens that another mask removes. A mask is constant and
// has no derivative. The objective does not see masked tokens as part of their sequence. The other tokens' weights do
// not change. A token with a NaN log-prob is not masked, so its step is skipped and its call is reported.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"

namespace ingot::trainer {

// Contains copies of the entries that the masks keep.
class KeptEntries {
 public:
  // REQUIRES: `entries` is the whole batch if masks.of_sequences(); otherwise, it may be any subset. Its preferences
  // must outlive this object.
  KeptEntries(const LossEntries& entries, const OffPolicyMaskOptions& masks);

  // Returns the kept entries for the objective. Their sequence_weights cover all entries.
  LossEntries entries() const;
  // Returns the index of each kept entry among all entries, in ascending order.
  const std::vector<size_t>& places() const { return places_; }
  // Adds offpolicy/masked, the share of entries that are masked, and the share of each enabled mask:
  // offpolicy/masked_token, offpolicy/masked_sequence, and offpolicy/masked_opsm. An entry may count under several
  // masks.
  void Tally(MetricSums& sums) const;

 private:
  // Bits for the masks that removed an entry.
  static constexpr unsigned kToken = 1, kSequence = 2, kOpsm = 4;

  const OffPolicyMaskOptions masks_;
  const int32_t sequence_count_;
  const std::span<const Preference> preferences_;
  std::vector<uint8_t> masked_;           // per entry: the masks that removed it; 0 = kept
  std::vector<double> sequence_weights_;  // per sequence, including masked tokens
  std::vector<size_t> places_;
  // Per kept entry:
  std::vector<double> logprobs_, recorded_, reference_, advantages_, weights_;
  std::vector<int32_t> sequences_, calls_;
};

}  // namespace ingot::trainer
