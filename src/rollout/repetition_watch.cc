#include "rollout/repetition_watch.h"

#include <algorithm>
#include <cmath>

namespace ingot::rollout {
namespace {

constexpr int64_t kByteVocabulary = 1024;  // bytes and a few special ids

}  // namespace

absl::Status HaltOptions::Validate() const {
  const auto invalid = [](const char* field, const auto& value, const char* allowed) {
    return absl::InvalidArgumentError(absl::StrCat("rollout.halt.", field, " is ", value, "; it must be ", allowed));
  };
  if (repetition != "on" && repetition != "off" && repetition != "auto") {
    return invalid("repetition", repetition, "on, off or auto");
  }
  if (certain_tokens < 1) return invalid("certain_tokens", certain_tokens, "at least 1");
  if (!(certain_above > 0 && certain_above < 1)) return invalid("certain_above", certain_above, "between 0 and 1");
  if (max_period < 1 || max_period > 1024) return invalid("max_period", max_period, "from 1 to 1024");
  if (periods < 2) return invalid("periods", periods, "at least 2");
  return min_repeated >= 0 ? absl::OkStatus() : invalid("min_repeated", min_repeated, "at least 0");
}

bool HaltOptions::Watches(int64_t vocab_size) const {
  return repetition == "on" || (repetition == "auto" && vocab_size > kByteVocabulary);
}

RepetitionWatch::RepetitionWatch(const HaltOptions& options)
    : certain_tokens_(options.certain_tokens),
      periods_(options.periods),
      min_repeated_(options.min_repeated),
      certain_logprob_(static_cast<float>(std::log(options.certain_above))),
      equal_(static_cast<size_t>(options.max_period), 0) {}

bool RepetitionWatch::Push(std::span<const int32_t> sampled, float logprob) {
  certain_ = logprob > certain_logprob_ ? certain_ + 1 : 0;
  bool halted = certain_ >= certain_tokens_;
  const size_t last = sampled.size() - 1;
  for (size_t period = 1; period <= std::min(equal_.size(), last); ++period) {
    int32_t& equal = equal_[period - 1];
    equal = sampled[last] == sampled[last - period] ? equal + 1 : 0;
    const auto repeated = equal + static_cast<int32_t>(period);  // with the phrase's first time
    halted = halted || repeated >= std::max(periods_ * static_cast<int32_t>(period), min_repeated_);
  }
  return halted;
}

}  // namespace ingot::rollout
