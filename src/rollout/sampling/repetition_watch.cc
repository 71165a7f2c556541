#include "rollout/sampling/repetition_watch.h"

#include <algorithm>
#include <cmath>

#include "base/config.h"

namespace ingot::rollout {
namespace {

constexpr int64_t kByteVocabulary = 1024;  // bytes and a few special ids

}  // namespace

void Bind(base::Schema& schema, HaltOptions& o) {
  schema.Choice("repetition", &o.repetition, {"on", "off", "auto"},
                "end calls that repeat themselves; auto: on, unless the tokenizer is bytes");
  schema.Field("certain_tokens", &o.certain_tokens,
               "end a call after this many consecutive tokens that each have a probability above certain_above",
               base::Positive());
  schema.Field("certain_above", &o.certain_above, "minimum probability for certain_tokens", base::Open(0, 1));
  schema.Field("max_period", &o.max_period, "maximum length of a repeated phrase, in tokens", base::InRange(1, 1024));
  schema.Field("periods", &o.periods, "number of repetitions of a phrase that ends a call", base::AtLeast(2));
  schema.Field("min_repeated", &o.min_repeated, "minimum total length of the repetitions, in tokens; 0: no minimum",
               base::NotNegative());
}

absl::Status HaltOptions::Validate() const { return base::CheckBounds(*this); }

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
    const auto repeated = equal + static_cast<int32_t>(period);  // includes the phrase's first occurrence
    halted = halted || repeated >= std::max(periods_ * static_cast<int32_t>(period), min_repeated_);
  }
  return halted;
}

}  // namespace ingot::rollout
