#include "rollout/speculation/speculation_options.h"

#include <algorithm>

#include "base/config.h"

namespace ingot::rollout {

void Bind(base::Schema& schema, SpeculationOptions& o) {
  schema.Field(
      "drafters", &o.drafters,
      "sources of draft tokens, in order of preference: given (the partial answer of a call that lost its "
      "engine, and a script's answers), history (text that the engine has seen before), mtp (the model's draft "
      "head, if it has one); []: none. Drafts change neither tokens nor log-probs");
  schema.Field("max_drafts", &o.max_drafts, "maximum number of draft tokens from history per request and step",
               base::InRange(1, 64));
  schema.Field("mtp_drafts", &o.mtp_drafts, "maximum number of draft tokens from the draft head per request and step",
               base::InRange(1, 64));
  schema.Field("sharpness", &o.sharpness,
               "exponent of the draft head's probabilities; above 1, drafts are more often the likeliest tokens",
               base::InRange(0.1, 10));
  schema.Field("min_gain", &o.min_gain,
               "minimum gain in tokens per second, estimated from measured costs, at which a step verifies drafts; -1: "
               "always verify",
               base::AtLeast(-1));
  schema.Field("history_tokens", &o.history_tokens,
               "number of tokens that history keeps per engine, at 12 bytes each; rounded down to a power of two",
               base::InRange(1024, 1 << 30));
  schema.Field("min_match", &o.min_match, "minimum number of consecutive matching tokens before history drafts",
               base::InRange(1, 64));
  schema.Field("max_match", &o.max_match,
               "maximum number of consecutive tokens that history compares; at least min_match", base::InRange(1, 64));
}

absl::Status SpeculationOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  for (size_t i = 0; i < drafters.size(); ++i) {
    const std::string& name = drafters[i];
    if (name != "given" && name != "history" && name != "mtp") {
      return absl::InvalidArgumentError(
          absl::StrCat("speculation.drafters has '", name, "'; its entries must be given, history, or mtp"));
    }
    if (std::find(drafters.begin(), drafters.begin() + static_cast<ptrdiff_t>(i), name) !=
        drafters.begin() + static_cast<ptrdiff_t>(i)) {
      return absl::InvalidArgumentError(absl::StrCat("speculation.drafters has '", name, "' twice"));
    }
  }
  if (min_match <= max_match) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("speculation.min_match is ", min_match, ": it must be at most speculation.max_match, ", max_match));
}

}  // namespace ingot::rollout
