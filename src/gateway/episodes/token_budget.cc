#include "gateway/episodes/token_budget.h"

#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_limits.h"

namespace ingot::gateway {

absl::StatusOr<int64_t> TokenBudget::Take(int64_t prompt, const std::string& episode_id) {
  base::MutexLock lock(mu_);
  if (limit_ > 0 && used_ + prompt >= limit_) {
    return ApiError(
        400, kEpisodeLimit, "",
        absl::StrCat("episode ", episode_id, " has used ", used_, " of its ", limit_,
                     " tokens (max_tokens), and this prompt has ", prompt, ": it accepts no more calls, so end it"));
  }
  used_ += prompt;
  return limit_ > 0 ? limit_ - used_ : INT64_MAX;
}

}  // namespace ingot::gateway
