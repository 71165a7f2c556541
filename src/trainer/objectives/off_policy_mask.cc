#include "trainer/objectives/off_policy_mask.h"

#include <cmath>

#include "trainer/objectives/sequence_sums.h"

namespace ingot::trainer {
namespace {

// A bound of 0 means none. A NaN ratio is within the bounds.
bool Outside(double ratio, double low, double high) { return ratio < low || (high > 0 && ratio > high); }

}  // namespace

KeptEntries::KeptEntries(const LossEntries& entries, const OffPolicyMaskOptions& masks)
    : masks_(masks), sequence_count_(entries.sequence_count), preferences_(entries.preferences) {
  const std::vector<SequenceSums> sums = SumSequences(entries, entries.recorded);
  for (const SequenceSums& sum : sums) sequence_weights_.push_back(sum.weight);
  for (size_t i = 0; i < entries.logprobs.size(); ++i) {
    const SequenceSums& sequence = sums[static_cast<size_t>(entries.sequences[i])];
    const double mean = sequence.log_ratio / static_cast<double>(sequence.tokens);
    const double ratio = std::exp(entries.logprobs[i] - entries.recorded[i]);
    unsigned masked = 0;
    if (Outside(ratio, masks.token_low, masks.token_high)) masked |= kToken;
    if (Outside(std::exp(mean), masks.sequence_low, masks.sequence_high)) masked |= kSequence;
    if (masks.opsm_delta > 0 && entries.advantages[i] < 0 && -mean > masks.opsm_delta) masked |= kOpsm;
    masked_.push_back(static_cast<uint8_t>(masked));
    if (masked != 0) continue;
    places_.push_back(i);
    logprobs_.push_back(entries.logprobs[i]);
    recorded_.push_back(entries.recorded[i]);
    if (!entries.reference.empty()) reference_.push_back(entries.reference[i]);
    advantages_.push_back(entries.advantages[i]);
    weights_.push_back(entries.weights[i]);
    sequences_.push_back(entries.sequences[i]);
    if (!entries.calls.empty()) calls_.push_back(entries.calls[i]);
  }
}

LossEntries KeptEntries::entries() const {
  return {logprobs_,  recorded_,       reference_,   advantages_,       weights_,
          sequences_, sequence_count_, preferences_, sequence_weights_, calls_};
}

void KeptEntries::Tally(MetricSums& sums) const {
  const auto add = [&](const char* name, unsigned kinds) {
    MeanMax& share = sums.means[name];
    for (const uint8_t masked : masked_) share.Add((masked & kinds) != 0 ? 1.0 : 0.0);
  };
  add("offpolicy/masked", kToken | kSequence | kOpsm);
  if (masks_.of_tokens()) add("offpolicy/masked_token", kToken);
  if (masks_.sequence_low > 0 || masks_.sequence_high > 0) add("offpolicy/masked_sequence", kSequence);
  if (masks_.opsm_delta > 0) add("offpolicy/masked_opsm", kOpsm);
}

}  // namespace ingot::trainer
