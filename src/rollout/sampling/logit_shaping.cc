#include "rollout/sampling/logit_shaping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fault.h"

namespace ingot::rollout {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr float kMaxPenalty = 2, kMaxBias = 100, kMinRepetition = 0.01f, kMaxRepetition = 100;

absl::Status CheckPenalty(const char* field, float value) {
  // Written so that NaN fails.
  if (value >= -kMaxPenalty && value <= kMaxPenalty) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field, " is ", value, "; it must be between -2 and 2"));
}

float RepetitionOf(const v1::SamplingParams& params) {
  return params.repetition_penalty() == 0 ? 1 : params.repetition_penalty();
}

}  // namespace

absl::Status ValidateShaping(const v1::SamplingParams& params, int64_t vocab_size) {
  INGOT_RETURN_IF_ERROR(CheckPenalty("frequency_penalty", params.frequency_penalty()));
  INGOT_RETURN_IF_ERROR(CheckPenalty("presence_penalty", params.presence_penalty()));
  const float repetition = RepetitionOf(params);
  if (!(repetition >= kMinRepetition && repetition <= kMaxRepetition)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling.repetition_penalty is ", repetition, "; it must be 0 (off) or between 0.01 and 100"));
  }
  if (params.min_new_tokens() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling.min_new_tokens is ", params.min_new_tokens(), "; it must be at least 0"));
  }
  for (const auto& [id, bias] : params.logit_bias()) {
    if (id < 0 || id >= vocab_size) {
      return base::FaultError(
          {"sampling.logit_bias", absl::StrCat("it has id ", id, ", outside the vocabulary of ", vocab_size)});
    }
    if (!(bias >= -kMaxBias && bias <= kMaxBias)) {
      return base::FaultError(
          {"sampling.logit_bias", absl::StrCat("the bias of id ", id, " is ", bias, "; it must be from -100 to 100")});
    }
  }
  return absl::OkStatus();
}

bool LogitShaper::IsRequested(const v1::SamplingParams& params) {
  return params.frequency_penalty() != 0 || params.presence_penalty() != 0 || RepetitionOf(params) != 1 ||
         params.logit_bias_size() > 0 || params.min_new_tokens() > 0;
}

LogitShaper::LogitShaper(const v1::SamplingParams& params, std::span<const int32_t> prompt_ids,
                         std::span<const int32_t> stop_ids)
    : inverse_temperature_(params.temperature() == 0 ? 1 : 1 / params.temperature()),
      repetition_(RepetitionOf(params)),
      frequency_(params.frequency_penalty()),
      presence_(params.presence_penalty()),
      held_draws_(params.min_new_tokens()),
      held_ids_(stop_ids.begin(), stop_ids.end()) {
  for (const auto& [id, bias] : params.logit_bias()) {
    if (bias != 0) bias_.emplace_back(id, bias <= -kMaxBias ? kExcluded : bias * inverse_temperature_);
  }
  if (repetition_ != 1) repeated_.insert(prompt_ids.begin(), prompt_ids.end());
}

void LogitShaper::RecordSampled(int32_t id) {
  bias_acted_ = bias_acted_ || (held_draws_ > 0 && !held_ids_.empty());  // on the engine that sampled the id
  --held_draws_;
  if (frequency_ != 0 || presence_ != 0) ++sampled_[id];
  if (repetition_ != 1) repeated_.insert(id);
}

void LogitShaper::Shape(float log_normalizer, std::span<float> row) {
  if (repetition_ != 1) {
    const auto repeat = [&](int32_t id) {
      const float scaled = row[id] + log_normalizer;  // logit / T has the same sign as the logit
      if (!std::isfinite(scaled)) return;             // -inf stays; a difference of infinities is NaN
      const float change = (scaled > 0 ? scaled / repetition_ : scaled * repetition_) - scaled;
      row[id] = std::min(row[id] + change, std::numeric_limits<float>::max());
    };
    for (const int32_t id : repeated_) repeat(id);
    penalty_acted_ = penalty_acted_ || !repeated_.empty();
  }
  if (frequency_ != 0 || presence_ != 0) {
    for (const auto& [id, count] : sampled_) {
      row[id] -= (frequency_ * static_cast<float>(count) + presence_) * inverse_temperature_;
    }
    penalty_acted_ = penalty_acted_ || !sampled_.empty();
  }
  for (const auto& [id, bias] : bias_) row[id] += bias;
  bias_acted_ = bias_acted_ || !bias_.empty();
  for (const int32_t id : held_ids_) {
    if (held_draws_ <= 0) break;
    if (id < 0 || static_cast<size_t>(id) >= row.size()) continue;
    row[id] = kExcluded;
    bias_acted_ = true;
  }
}

}  // namespace ingot::rollout
