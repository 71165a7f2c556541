#include "rollout/sampling/stop_matcher.h"

#include <algorithm>
#include <array>

namespace ingot::rollout {

StopMatcher::StopMatcher(std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<std::string> stops,
                         int32_t last_prompt_id)
    : tokenizer_(std::move(tokenizer)), stops_(std::move(stops)), previous_(last_prompt_id) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

std::string StopMatcher::NewText(int32_t id) const {
  // Decodes the token after its predecessor because some tokenizers drop the first token's leading space.
  const std::array<int32_t, 2> pair = {previous_, id};
  const std::string before = tokenizer_->Decode(std::span(pair).first(1), /*skip_special=*/false);
  std::string both = tokenizer_->Decode(pair, /*skip_special=*/false);
  if (both.compare(0, before.size(), before) == 0) return both.substr(before.size());
  return tokenizer_->Decode(std::span(pair).last(1), /*skip_special=*/false);
}

void StopMatcher::Skip(int32_t id) {
  tail_.clear();
  previous_ = id;
}

int StopMatcher::Push(int32_t id) {
  if (stops_.empty()) return -1;
  tail_ += NewText(id);
  previous_ = id;
  int best = -1;
  size_t best_end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t at = tail_.find(stops_[i]);
    if (at == std::string::npos) continue;
    const size_t end = at + stops_[i].size();
    if (best < 0 || end < best_end || (end == best_end && stops_[i].size() > stops_[best].size())) {
      best = static_cast<int>(i);
      best_end = end;
    }
  }
  if (tail_.size() >= longest_) tail_.erase(0, tail_.size() - (longest_ - 1));
  return best;
}

}  // namespace ingot::rollout
