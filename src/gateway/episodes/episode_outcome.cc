// The outcome of an episode: its rewards, and its end.
#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/episodes/episode.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::gateway {
namespace {

constexpr char kRejectedMark[] = "; the gateway's last rejection: ";
constexpr size_t kMaxRejection = 600;  // bytes

absl::Status CheckName(const char* of, const std::string& name) {
  if (tree::IsSignalName(name)) return absl::OkStatus();
  return BadRequest(of, absl::StrCat("a name of '", of, "' must have 1 to ", tree::kMaxSignalName,
                                     " bytes without control characters or marks of direction: '",
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

// 400: the episode would have too many.
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

std::string WithRejection(const std::string& detail, const std::string& rejection) {
  return rejection.empty() ? detail : absl::StrCat(detail, kRejectedMark, rejection);
}

std::string WithoutRejection(const std::string& detail) { return detail.substr(0, detail.find(kRejectedMark)); }

absl::StatusOr<std::string> Episode::FindCall(const v1::CallReward& named) const {
  if (named.call_case() == v1::CallReward::kTurn) {
    for (const auto& [sequence, append] : lost_) {
      if (!IsUnsettled(sequence)) continue;
      return absl::UnavailableError(absl::StrCat("it is not known yet whether a call of episode ", id(),
                                                 " is recorded, and 'turn' counts recorded calls: "
                                                 "send the reward again"));
    }
    if (std::string call = CallAt(named.turn()); !call.empty()) return call;
    return ApiError(404, "call_not_found", "turn",
                    absl::StrCat("episode ", id(), " has recorded no call with the number ", named.turn()));
  }
  if (std::string call = RecordedAs(named.call_id()); !call.empty()) return call;
  return ApiError(404, "call_not_found", "call_id",
                  absl::StrCat("episode ", id(), " has recorded no call '",
                               base::Printable(named.call_id(), {.max_bytes = 80}), "'"));
}

std::string Episode::RecordedAs(const std::string& sent) const {
  const std::string inside = CallIdIn(sent);
  for (const auto& [sequence, call_id] : recorded_) {
    if (call_id == sent || call_id == inside || sent.ends_with("-" + call_id)) return call_id;
  }
  return "";
}

bool Episode::HoldsCalls(const v1::EpisodeRewardRequest& posted) const {
  base::MutexLock lock(mu_);
  for (const v1::CallReward& named : posted.call_rewards()) {
    if (named.call_case() == v1::CallReward::kTurn || RecordedAs(named.call_id()).empty()) return false;
  }
  return true;
}

std::string Episode::CallAt(int32_t turn) const {
  int32_t place = first_turn_;
  std::set<int32_t> held = pending_;
  held.insert(used_.begin(), used_.end());
  auto next = held.begin();
  for (const auto& [sequence, call_id] : recorded_) {
    for (; next != held.end() && *next < sequence; ++next) ++place;
    if (place == turn) return call_id;
    ++place;
  }
  return "";
}

absl::Status Episode::CheckRoom(const v1::StoreRewardRequest& posted) const {
  const auto added = [](const auto& to, const auto& from) {
    return std::count_if(from.begin(), from.end(), [&](const auto& one) { return !to.contains(one.first); });
  };
  google::protobuf::Map<std::string, std::string> facts = earned_.facts();
  for (const auto& [name, json] : posted.facts()) facts[name] = json;
  INGOT_RETURN_IF_ERROR(CheckCounts(earned_.signals().size() + added(earned_.signals(), posted.signals()), facts));
  // Only a session can exceed this limit, because it begins new histories.
  const auto calls = earned_.call_rewards().size() + added(earned_.call_rewards(), posted.call_rewards());
  if (calls > static_cast<size_t>(limits_.max_calls())) {
    return BadRequest("calls", absl::StrCat("an episode has rewards for at most ", limits_.max_calls(),
                                            " calls, its limit (max_calls)"));
  }
  return absl::OkStatus();
}

void Episode::NoteAnswer(const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  std::string rejection;
  if (!status.ok()) {
    const std::string code = ErrorCodeOf(status);
    rejection = absl::StrCat(HttpStatusOf(status), code.empty() ? "" : " ", code, ": ",
                             base::Printable(std::string(status.message()), {.max_bytes = kMaxRejection}));
  }
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return;
  if (status.ok()) {
    ++answered_since_;
  } else {
    rejection_ = std::move(rejection);
    answered_since_ = 0;
  }
}

absl::StatusOr<Episode::RewardTurn> Episode::TakeRewardTurn(std::chrono::nanoseconds timeout) {
  base::MutexLock lock(mu_);
  if (state_ == State::kOpen) INGOT_RETURN_IF_ERROR(WaitForStoring(timeout));
  if (state_ != State::kOpen) return EpisodeOver(id());
  storing_ = true;
  return RewardTurn(this);
}

void Episode::EndRewardTurn() {
  base::MutexLock lock(mu_);
  storing_ = false;
  changed_.SignalAll();
}

absl::StatusOr<v1::StoreRewardRequest> Episode::StartReward(const v1::EpisodeRewardRequest& posted) {
  v1::StoreRewardRequest started;
  started.set_episode_id(id());
  started.set_gateway_token(gateway_token());
  if (posted.has_reward()) started.set_reward(posted.reward());
  *started.mutable_signals() = posted.signals();
  *started.mutable_facts() = posted.facts();
  base::MutexLock lock(mu_);
  for (const v1::CallReward& named : posted.call_rewards()) {
    INGOT_ASSIGN_OR_RETURN(const std::string call, FindCall(named));
    (*started.mutable_call_rewards())[call] = named.reward();
  }
  INGOT_RETURN_IF_ERROR(CheckRoom(started));
  started.set_number(++reward_number_);
  return started;
}

void Episode::CountReward(const v1::StoreRewardRequest& started) {
  base::MutexLock lock(mu_);
  earned_.MergeFrom(started);
}

bool Episode::lacks_reward() const {
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && !earned_.has_reward();
}

void Episode::NoteStored(const v1::Episode& stored) {
  v1::StoreRewardRequest earned;
  if (stored.has_reward()) earned.set_reward(stored.reward());
  *earned.mutable_signals() = stored.signals();
  *earned.mutable_call_rewards() = stored.call_rewards();
  base::MutexLock lock(mu_);
  earned.MergeFrom(earned_);  // values posted since `stored` was read are newer
  // A fact that is not in earned_ was not acknowledged. It is left out rather than that the end is rejected.
  for (const auto& [name, json] : stored.facts()) {
    const bool fits = !earned.facts().contains(name) && tree::HasRoomForFact(earned.facts(), name, json);
    if (fits) (*earned.mutable_facts())[name] = json;
  }
  earned_ = std::move(earned);
  reward_number_ = std::max(reward_number_, stored.reward_number());
}

absl::Status Episode::WaitForStoring(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  const int64_t place = storers_++;
  waiting_storers_.insert(place);
  bool late = false;
  while (!late && (storing_ || *waiting_storers_.begin() != place)) {
    late = clock_.Now() >= deadline;
    if (!late) clock_.WaitUntil(changed_, mu_, deadline);
  }
  waiting_storers_.erase(place);
  changed_.SignalAll();  // the next waiter may be first now
  if (!late) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("another request's reward or end of episode ", id(), " is still being stored: try again later"));
}

absl::StatusOr<Episode::End> Episode::StartEnd(const AskedEnd& asked, std::chrono::nanoseconds timeout) {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(WaitForStoring(timeout));
  const bool judged = state_ == State::kOpen && asked.finish_if_judged && earned_.has_reward();
  const v1::EpisodeState state = judged ? v1::EPISODE_FINISHED : asked.state;
  const std::string detail = judged ? asked.detail + "; its reward had been posted" : asked.detail;
  if (state_ != State::kOpen && (end_.state() != state || end_detail_ != detail)) {
    return ApiError(409, "episode_over", "",
                    absl::StrCat("episode ", id(), " was ended as ", v1::EpisodeState_Name(end_.state()), " (",
                                 end_detail_, "): it cannot be ended otherwise"));
  }
  std::string rejection = rejection_;
  if (!rejection.empty() && answered_since_ > 0) {
    absl::StrAppend(&rejection, " (later requests that were answered: ", answered_since_, ")");
  }
  if (state_ == State::kEnded) return End{.already = true, .rejection = rejection, .request = {}, .in_flight = {}};
  if (state_ == State::kOpen) {
    const bool finished = state == v1::EPISODE_FINISHED;
    const bool by_default = finished && !Rewarded() && asked.unless_rewarded.has_value();
    if (finished && !Rewarded() && !by_default && record_.purpose() != v1::PURPOSE_SERVE) {
      return ApiError(409, "no_reward", "",
                      absl::StrCat("episode ", id(), " has no reward: set one before it is ended as finished"));
    }
    state_ = State::kEnding;
    end_.set_episode_id(id());
    end_.set_gateway_token(gateway_token());
    end_.set_state(state);
    if (by_default) {
      *end_.mutable_unless_rewarded() = *asked.unless_rewarded;
    } else if (finished) {  // otherwise the pool keeps the posted values
      end_.set_reward(earned_.reward());
      *end_.mutable_signals() = earned_.signals();
      *end_.mutable_facts() = earned_.facts();
      *end_.mutable_call_rewards() = earned_.call_rewards();
    }
    end_detail_ = detail;
    end_.set_cause(judged ? "" : asked.cause);
    end_.set_detail(WithRejection(detail, rejection));
    end_.set_ended_unix_ns(UnixNanosAt(clock_.Now()));
    resumed.requests = TakeWaiting();
    changed_.SignalAll();
  }
  storing_ = true;
  End end{.already = false, .rejection = std::move(rejection), .request = end_, .in_flight = {}};
  for (const auto& [call, asked] : in_flight_) end.in_flight.push_back(call);
  return end;
}

absl::Status Episode::WaitForCalls(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  base::MutexLock lock(mu_);
  while (!in_flight_.empty()) {
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(in_flight_.size(), " calls of episode ", id(), " are still being recorded: end it again later"));
    }
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  return absl::OkStatus();
}

void Episode::FinishEnd(bool ok) {
  History ended;  // destroyed after the lock is released
  base::MutexLock lock(mu_);
  storing_ = false;
  changed_.SignalAll();
  if (!ok) {
    ++end_tries_;
    return;
  }
  state_ = State::kEnded;
  std::swap(ended, history_);
}

std::optional<Episode::UnfinishedEnd> Episode::unfinished_end() const {
  base::MutexLock lock(mu_);
  if (state_ != State::kEnding || storing_) return std::nullopt;
  return UnfinishedEnd{{.state = end_.state(), .detail = end_detail_, .cause = end_.cause()}, end_tries_};
}

}  // namespace ingot::gateway
