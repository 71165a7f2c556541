#include "reward/terms/failed_call.h"

#include <algorithm>

#include "reward/delivered.h"

namespace ingot::reward {
namespace {

bool Names(const base::json::value& entry, const v1::Call& call) {
  if (entry.is_int64()) return entry.get_int64() == call.sequence();
  if (!entry.is_string()) return false;
  const std::string name(entry.get_string());
  if (name == call.call_id()) return true;
  const DeliveredMessage delivered = DeliveredBy(call);
  return std::any_of(delivered.tool_calls.begin(), delivered.tool_calls.end(),
                     [&](const DeliveredToolCall& tool) { return tool.id == name; });
}

}  // namespace

absl::StatusOr<TermResult> FailedCallTerm::Of(const EpisodeFacts& episode) const {
  TermResult result;
  INGOT_ASSIGN_OR_RETURN(const auto failed, episode.Fact("failed_calls"));
  if (!failed.has_value()) return result;
  if (!failed->is_array()) return absl::InvalidArgumentError("fact 'failed_calls' is not a list");
  for (const base::json::value& entry : failed->get_array()) {
    const auto call = std::find_if(episode.calls.begin(), episode.calls.end(),
                                   [&](const CallFacts& one) { return one.policy && Names(entry, *one.record); });
    if (call == episode.calls.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("fact 'failed_calls' refers to ", base::PrintJson(entry),
                       ", which is not a call of the policy: use a turn, a call id, or a tool call id"));
    }
    result.calls[call->id()] = -1 / static_cast<double>(episode.policy_calls());
  }
  return result;
}

}  // namespace ingot::reward
