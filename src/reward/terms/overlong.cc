#include "reward/terms/overlong.h"

#include <algorithm>

#include "base/config.h"

namespace ingot::reward {

absl::Status OverlongOptions::Validate() const {
  if (soft_tokens <= max_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("overlong.soft_tokens is ", soft_tokens,
                                                 ": it must be at most overlong.max_tokens (", max_tokens, ")"));
}

void Bind(base::Schema& schema, OverlongOptions& o) {
  schema.Field("max_tokens", &o.max_tokens, "an episode with more sampled tokens gets -1", base::AtLeast(1));
  schema.Field("soft_tokens", &o.soft_tokens, "number of tokens below max_tokens over which the penalty grows",
               base::AtLeast(1));
}

absl::StatusOr<TermResult> OverlongTerm::Of(const EpisodeFacts& episode) const {
  const int64_t past = episode.sampled_tokens - (options_.max_tokens - options_.soft_tokens);
  TermResult result;
  if (past > 0) result.value = -std::min(1.0, static_cast<double>(past) / static_cast<double>(options_.soft_tokens));
  return result;
}

}  // namespace ingot::reward
