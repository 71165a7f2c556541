#include "reward/terms/overlong.h"

#include <algorithm>

namespace ingot::reward {

absl::Status OverlongOptions::Validate() const {
  if (max_tokens > 0 && soft_tokens >= 1 && soft_tokens <= max_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("overlong.soft_tokens is ", soft_tokens, ": from 1 to overlong.max_tokens (", max_tokens, ")"));
}

absl::StatusOr<TermResult> OverlongTerm::Of(const EpisodeFacts& episode) const {
  const int64_t past = episode.sampled_tokens - (options_.max_tokens - options_.soft_tokens);
  TermResult result;
  if (past > 0) result.value = -std::min(1.0, static_cast<double>(past) / static_cast<double>(options_.soft_tokens));
  return result;
}

}  // namespace ingot::reward
