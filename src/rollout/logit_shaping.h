// What stands between the policy's row and the draw: penalties, bias, and the grammar's mask. They change what is
// drawn, never the recorded log-prob, which is the row's own.
//
// On raw logits, in this order: repetition_penalty divides a positive and multiplies a negative logit of every id in
// prompt or call; frequency_penalty times the id's count in the call and presence_penalty, if it is there at all, are
// subtracted; logit_bias is added (-100: never). Then temperature, then the mask, then truncation (rollout/sampling.h).
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

// INVALID_ARGUMENT names the field, the value and what it may be: frequency and presence penalty -2 to 2, repetition
// penalty 0 (off) or 0.01 to 100, bias -100 to 100 on ids below `vocab_size`.
absl::Status ValidateShaping(const v1::SamplingParams& params, int64_t vocab_size);

// What to draw from.
struct ShapedRow {
  std::span<const float> logprobs;  // -inf: never
  std::span<const int32_t> ids;     // of the entries; empty: entry i is id i
  double mass = 1;                  // what the probabilities sum to
};

// Working memory, shared by all requests of one step thread.
struct ShapingScratch {
  std::vector<float> row, compact;
};

// The penalties and biases of one request and what they need to remember. Single-threaded.
class LogitShaper {
 public:
  // True if `params` ask for anything here.
  static bool IsRequested(const v1::SamplingParams& params);

  // `prompt_ids` are those the repetition penalty covers from the start.
  LogitShaper(const v1::SamplingParams& params, std::span<const int32_t> prompt_ids);

  // True if Shape needs to know the scale of the logits.
  bool needs_normalizer() const { return repetition_ != 1; }

  // Takes note of a sampled id.
  void RecordSampled(int32_t id);

  // Changes `row` (log_softmax(logits / T) on entry) in place; the result is not normalised. `log_normalizer` is
  // logsumexp(logits / T), read where needs_normalizer().
  void Shape(float log_normalizer, std::span<float> row);

  // Whether Shape ever changed a logit.
  bool penalty_acted() const { return penalty_acted_; }
  bool bias_acted() const { return bias_acted_; }

 private:
  const float inverse_temperature_;
  const float repetition_, frequency_, presence_;
  std::vector<std::pair<int32_t, float>> bias_;   // added to a row's entry
  std::unordered_map<int32_t, int32_t> sampled_;  // id -> times, for frequency and presence
  std::unordered_set<int32_t> repeated_;          // in prompt or call, for repetition
  bool penalty_acted_ = false, bias_acted_ = false;
};

// `row` as a distribution; in place. FAILED_PRECONDITION: no id has a positive probability.
absl::StatusOr<ShapedRow> Normalize(std::span<float> row);
// The same of these ids alone. The result points into `ids` and `scratch`.
absl::StatusOr<ShapedRow> RestrictTo(std::span<const float> row, std::span<const int32_t> ids, ShapingScratch& scratch);

}  // namespace ingot::rollout
