// Applies penalties, biases, and the minimum length to the row from which a token is sampled. Does not affect the
// recorded log-prob, which comes from the policy's row.
//
// These are applied to raw logits in this order:
//   repetition_penalty  divides positive and multiplies negative logits of every id in the prompt or the call
//   frequency_penalty   is subtracted for each occurrence of the id in the call
//   presence_penalty    is subtracted if the id occurs in the call
//   logit_bias          is added; -100 = never sampled
//   min_new_tokens      ids that end the call are not sampled before this many tokens
// Temperature, the grammar mask, and truncation follow (rollout/sampling/sampling.h).
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

// Returns INVALID_ARGUMENT, with the field, its value, and the allowed values: -2 to 2 for frequency and presence
// penalties, 0 (off) or 0.01 to 100 for the repetition penalty, -100 to 100 for biases on ids below `vocab_size`, and
// at least 0 for min_new_tokens.
absl::Status ValidateShaping(const v1::SamplingParams& params, int64_t vocab_size);

// Scratch memory shared by all requests on one step thread.
struct ShapingScratch {
  std::vector<float> row, compact;
};

// Holds one request's penalties and biases and the id counts they need. Not thread safe.
class LogitShaper {
 public:
  // Returns true if `params` has a penalty, a bias, or a minimum length.
  static bool IsRequested(const v1::SamplingParams& params);

  // The repetition penalty covers `prompt_ids` from the start. `stop_ids` end the call.
  LogitShaper(const v1::SamplingParams& params, std::span<const int32_t> prompt_ids, std::span<const int32_t> stop_ids);

  // Returns true if Shape needs the logits' scale.
  bool needs_normalizer() const { return repetition_ != 1; }

  // Counts a sampled id.
  void RecordSampled(int32_t id);

  // Changes `row` in place from log_softmax(logits / T) to an unnormalized row. Keeps entries of -inf. `log_normalizer`
  // is logsumexp(logits / T) and is used only if needs_normalizer().
  void Shape(float log_normalizer, std::span<float> row);

  // Return true if Shape has changed any logit. A minimum length counts as a bias.
  bool penalty_acted() const { return penalty_acted_; }
  bool bias_acted() const { return bias_acted_; }

 private:
  const float inverse_temperature_;
  const float repetition_, frequency_, presence_;
  std::vector<std::pair<int32_t, float>> bias_;   // values to add, by id
  std::unordered_map<int32_t, int32_t> sampled_;  // number of occurrences by id, for frequency and presence
  std::unordered_set<int32_t> repeated_;          // ids in the prompt and the call, for repetition
  int64_t held_draws_ = 0;                        // remaining draws where held_ids_ cannot be sampled
  std::vector<int32_t> held_ids_;
  bool penalty_acted_ = false, bias_acted_ = false;
};

}  // namespace ingot::rollout
