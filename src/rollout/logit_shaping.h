// LogitShaper changes the row that a token is drawn from: penalties, bias and a minimum length. It never changes the
// recorded log-prob, which comes from the policy's row.
//
// On raw logits, in this order:
//   repetition_penalty  divides a positive logit and multiplies a negative one, of every id in the prompt or the call
//   frequency_penalty   is subtracted once per occurrence of the id in the call
//   presence_penalty    is subtracted if the id occurs in the call
//   logit_bias          is added; -100 = never
//   min_new_tokens      the ids that end the call are never drawn before this many tokens
// Then follow temperature, the grammar's mask, and truncation (rollout/sampling.h).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// INVALID_ARGUMENT names the field, its value and its allowed values: frequency and presence penalty -2 to 2,
// repetition penalty 0 (off) or 0.01 to 100, bias -100 to 100 on ids below `vocab_size`, min_new_tokens from 0.
absl::Status ValidateShaping(const v1::SamplingParams& params, int64_t vocab_size);

// Working memory that all requests of one step thread share.
struct ShapingScratch {
  std::vector<float> row, compact;
};

// The penalties and biases of one request, with the ids they count. Single-threaded.
class LogitShaper {
 public:
  // True if `params` ask for a penalty, a bias or a minimum length.
  static bool IsRequested(const v1::SamplingParams& params);

  // The repetition penalty covers `prompt_ids` from the start. `stop_ids` end the call.
  LogitShaper(const v1::SamplingParams& params, std::span<const int32_t> prompt_ids, std::span<const int32_t> stop_ids);

  // True if Shape needs the scale of the logits.
  bool needs_normalizer() const { return repetition_ != 1; }

  // Counts a sampled id.
  void RecordSampled(int32_t id);

  // Changes `row` in place: log_softmax(logits / T) becomes a row that is not normalised. Entries of -inf stay.
  // `log_normalizer` is logsumexp(logits / T), read where needs_normalizer().
  void Shape(float log_normalizer, std::span<float> row);

  // Whether Shape has changed a logit; a minimum length counts as a bias.
  bool penalty_acted() const { return penalty_acted_; }
  bool bias_acted() const { return bias_acted_; }

 private:
  const float inverse_temperature_;
  const float repetition_, frequency_, presence_;
  std::vector<std::pair<int32_t, float>> bias_;   // added to the row's entry of the id
  std::unordered_map<int32_t, int32_t> sampled_;  // id -> times, for frequency and presence
  std::unordered_set<int32_t> repeated_;          // ids of prompt and call, for repetition
  int64_t held_draws_ = 0;                        // draws to come in which held_ids_ cannot be drawn
  std::vector<int32_t> held_ids_;
  bool penalty_acted_ = false, bias_acted_ = false;
};

}  // namespace ingot::rollout
