#include "reward/terms/malformed_call.h"

namespace ingot::reward {

absl::StatusOr<TermResult> MalformedCallTerm::Of(const EpisodeFacts& episode) const {
  TermResult result;
  for (const CallFacts& call : episode.calls) {
    if (call.policy && call.record->tool_call_malformed()) {
      result.calls[call.id()] = -1 / static_cast<double>(episode.policy_calls());
    }
  }
  return result;
}

}  // namespace ingot::reward
