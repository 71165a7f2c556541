#include "gateway/episodes/earned_rewards.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::gateway {
namespace {

absl::Status CheckName(const char* of, const std::string& name) {
  if (tree::IsSignalName(name)) return absl::OkStatus();
  return BadRequest(of, absl::StrCat("a name of '", of, "' must have 1 to ", tree::kMaxSignalName,
                                     " bytes without control or bidirectional formatting characters: '",
                                     base::Printable(name, {.max_bytes = 80}), "'"));
}

absl::Status CheckFacts(const v1::EpisodeRewardRequest& posted) {
  for (const auto& [name, json] : posted.facts()) {
    INGOT_RETURN_IF_ERROR(CheckName("facts", name));
    const auto parsed = base::ParseJson(json);
    if (!parsed.ok()) {
      return BadRequest("facts", absl::StrCat("fact '", name, "' is not JSON: ", parsed.status().message()));
    }
  }
  return absl::OkStatus();
}

// Returns 400 if the episode would have too many signals or facts.
absl::Status CheckCounts(size_t signals, const google::protobuf::Map<std::string, std::string>& facts) {
  if (signals > tree::kMaxSignals) {
    return BadRequest("signals", absl::StrCat("an episode has at most ", tree::kMaxSignals, " signals"));
  }
  if (facts.size() <= tree::kMaxFacts && tree::FactBytes(facts) <= tree::kMaxFactBytes) return absl::OkStatus();
  return BadRequest("facts",
                    absl::StrCat("an episode has at most ", tree::kMaxFacts, " facts, of at most ", tree::kMaxFactBytes,
                                 " bytes in all; it would have ", facts.size(), " of ", tree::FactBytes(facts)));
}

absl::Status CheckNumbers(const v1::EpisodeRewardRequest& posted) {
  if (const std::string fault = tree::RewardFault(posted.reward()); !fault.empty()) {
    return BadRequest("reward", "'reward' " + fault);
  }
  for (const auto& [name, number] : posted.signals()) {
    INGOT_RETURN_IF_ERROR(CheckName("signals", name));
    if (const std::string fault = tree::SignalFault(number); !fault.empty()) {
      return BadRequest("signals", absl::StrCat("signal '", name, "' ", fault));
    }
  }
  for (const v1::CallReward& named : posted.call_rewards()) {
    if (const std::string fault = tree::RewardFault(named.reward()); !fault.empty()) {
      return BadRequest("reward", "the reward of a call " + fault);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRewards(const v1::EpisodeRewardRequest& posted) {
  INGOT_RETURN_IF_ERROR(CheckNumbers(posted));
  return CheckFacts(posted);
}

absl::Status CheckDefault(const v1::DefaultOutcome& outcome) {
  v1::EpisodeRewardRequest posted;
  posted.set_reward(outcome.reward());
  *posted.mutable_signals() = outcome.signals();
  *posted.mutable_facts() = outcome.facts();
  absl::Status fault = CheckRewards(posted);
  if (fault.ok()) fault = CheckCounts(posted.signals().size(), posted.facts());
  if (fault.ok() && !base::IsValidUtf8(outcome.detail())) fault = BadRequest("detail", "'detail' is not UTF-8");
  if (fault.ok()) return fault;
  return BadRequest(absl::StrCat("unless_rewarded.", ErrorParamOf(fault)),
                    absl::StrCat("of unless_rewarded, ", fault.message()));
}

EarnedRewards::EarnedRewards(const v1::Episode& record) : number_(record.reward_number()) {
  if (record.has_reward()) values_.set_reward(record.reward());
  *values_.mutable_signals() = record.signals();
  *values_.mutable_facts() = record.facts();
  *values_.mutable_call_rewards() = record.call_rewards();
}

absl::Status EarnedRewards::Number(v1::StoreRewardRequest& reward, int max_calls) {
  const auto added = [](const auto& to, const auto& from) {
    return std::count_if(from.begin(), from.end(), [&](const auto& one) { return !to.contains(one.first); });
  };
  google::protobuf::Map<std::string, std::string> facts = values_.facts();
  for (const auto& [name, json] : reward.facts()) facts[name] = json;
  INGOT_RETURN_IF_ERROR(CheckCounts(values_.signals().size() + added(values_.signals(), reward.signals()), facts));
  // Only sessions can exceed this limit because they begin new histories.
  const auto calls = values_.call_rewards().size() + added(values_.call_rewards(), reward.call_rewards());
  if (calls > static_cast<size_t>(max_calls)) {
    return BadRequest("calls",
                      absl::StrCat("an episode has rewards for at most ", max_calls, " calls, its limit (max_calls)"));
  }
  reward.set_number(++number_);
  return absl::OkStatus();
}

void EarnedRewards::NoteStored(const v1::Episode& stored) {
  v1::StoreRewardRequest earned;
  if (stored.has_reward()) earned.set_reward(stored.reward());
  *earned.mutable_signals() = stored.signals();
  *earned.mutable_call_rewards() = stored.call_rewards();
  earned.MergeFrom(values_);  // values posted since `stored` was read are newer
  // A fact that is not in values_ was not acknowledged. It is omitted if it does not fit, so the end is not rejected.
  for (const auto& [name, json] : stored.facts()) {
    const bool fits = !earned.facts().contains(name) && tree::HasRoomForFact(earned.facts(), name, json);
    if (fits) (*earned.mutable_facts())[name] = json;
  }
  values_ = std::move(earned);
  number_ = std::max(number_, stored.reward_number());
}

void EarnedRewards::CopyTo(v1::StoreEndRequest& end) const {
  end.set_reward(values_.reward());
  *end.mutable_signals() = values_.signals();
  *end.mutable_facts() = values_.facts();
  *end.mutable_call_rewards() = values_.call_rewards();
}

}  // namespace ingot::gateway
