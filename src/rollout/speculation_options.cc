#include "rollout/speculation_options.h"

#include <algorithm>

#include "base/config.h"

namespace ingot::rollout {

void Bind(base::Schema& schema, SpeculationOptions& o) {
  schema.Field(
      "drafters", &o.drafters,
      "what guesses the next tokens, preferred first: given (the answer so far of a call that lost its engine, "
      "and a script's answers), history (text that the engine has seen before); []: none. No token and no "
      "log-prob depends on it");
  schema.Field("max_drafts", &o.max_drafts, "tokens that history may guess per request and step", base::InRange(1, 64));
  schema.Field("min_gain", &o.min_gain,
               "least gain in tokens per second, by measured costs, for which a step verifies guesses; -1: always",
               base::AtLeast(-1));
  schema.Field("history_tokens", &o.history_tokens,
               "tokens that history keeps per engine, 12 bytes each; rounded down to a power of two",
               base::InRange(1024, 1 << 30));
  schema.Field("min_match", &o.min_match, "least equal tokens in a row before history guesses", base::InRange(1, 64));
  schema.Field("max_match", &o.max_match, "most equal tokens in a row that history compares; at least min_match",
               base::InRange(1, 64));
}

absl::Status SpeculationOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  for (size_t i = 0; i < drafters.size(); ++i) {
    const std::string& name = drafters[i];
    if (name != "given" && name != "history") {
      return absl::InvalidArgumentError(
          absl::StrCat("speculation.drafters has '", name, "'; its entries are given and history"));
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
