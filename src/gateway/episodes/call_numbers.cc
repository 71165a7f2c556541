#include "gateway/episodes/call_numbers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"

namespace ingot::gateway {

CallNumbers::CallNumbers(Earlier earlier)
    : next_(earlier.next),
      first_(earlier.first),
      first_turn_(earlier.first_turn),
      unrecorded_(earlier.unrecorded),
      recorded_(std::move(earlier.recorded)) {}

int32_t CallNumbers::Begin() {
  pending_.insert(next_);
  return next_++;
}

bool CallNumbers::End(int32_t sequence, Unrecorded left) {
  if (pending_.erase(sequence) == 0) return false;
  if (left.used) {
    used_.insert(sequence);
    lost_.erase(sequence);
  } else {
    ++unrecorded_;
    returned_.insert(sequence);
    if (left.lost.has_value()) lost_.insert_or_assign(sequence, *std::move(left.lost));
  }
  for (; returned_.erase(next_ - 1) > 0; --next_) --unrecorded_;
  return true;
}

void CallNumbers::CountRecorded(const std::string& call_id, int32_t sequence) {
  recorded_[sequence] = call_id;
  pending_.erase(sequence);
  lost_.erase(sequence);
}

void CallNumbers::ForgetEarlier() {
  // The positions of calls after one in flight depend on whether that call is recorded, so they are kept.
  const int32_t kept = pending_.empty() ? next_ : *pending_.begin();
  const auto forget = [kept](auto& calls) {
    const auto end = calls.lower_bound(kept);
    const auto count = static_cast<int32_t>(std::distance(calls.begin(), end));
    calls.erase(calls.begin(), end);
    return count;
  };
  first_turn_ += forget(recorded_) + forget(used_);
  lost_.clear();
}

std::vector<v1::AppendCallRequest> CallNumbers::LostAppends() const {
  std::vector<v1::AppendCallRequest> unsettled;
  for (const auto& [sequence, append] : lost_) {
    if (IsUnsettled(sequence)) unsettled.push_back(append);
  }
  return unsettled;
}

void CallNumbers::TakeNumber(int32_t sequence) {
  // It may have become the next number since the append was resent.
  for (; next_ <= sequence; ++next_, ++unrecorded_) returned_.insert(next_);
  returned_.erase(sequence);
  --unrecorded_;
}

void CallNumbers::Settle(const v1::Call& call, const absl::Status& answer) {
  const int32_t sequence = call.sequence();
  const auto lost = lost_.find(sequence);
  if (lost == lost_.end() || lost->second.call().call_id() != call.call_id()) return;  // settled in the meantime
  if (pending_.contains(sequence)) return;  // the call that has the number now settles it
  lost_.erase(lost);
  if (!answer.ok() && !absl::IsAlreadyExists(answer)) return;
  TakeNumber(sequence);
  if (answer.ok()) {
    recorded_[sequence] = call.call_id();
  } else {
    used_.insert(sequence);
  }
}

void CallNumbers::Note(const v1::EpisodeTree& stored) {
  for (const v1::Call& call : stored.calls()) {
    if (used_.erase(call.sequence()) > 0) recorded_[call.sequence()] = call.call_id();
  }
}

CallNumbers::Place CallNumbers::LastPlace() const {
  if (recorded_.empty()) return {.call_id = "", .calls = first_};
  return {.call_id = recorded_.rbegin()->second, .calls = recorded_.rbegin()->first + 1};
}

absl::StatusOr<std::string> CallNumbers::Find(const v1::CallReward& named, const std::string& episode_id) const {
  if (named.call_case() == v1::CallReward::kTurn) {
    for (const auto& [sequence, append] : lost_) {
      if (!IsUnsettled(sequence)) continue;
      return absl::UnavailableError(
          absl::StrCat("it is not yet known whether a call of episode ", episode_id,
                       " was recorded, and 'turn' counts recorded calls: send the reward again"));
    }
    if (std::string call = CallAt(named.turn()); !call.empty()) return call;
    return ApiError(404, "call_not_found", "turn",
                    absl::StrCat("episode ", episode_id, " has no recorded call with the number ", named.turn()));
  }
  if (std::string call = RecordedAs(named.call_id()); !call.empty()) return call;
  return ApiError(404, "call_not_found", "call_id",
                  absl::StrCat("episode ", episode_id, " has no recorded call '",
                               base::Printable(named.call_id(), {.max_bytes = 80}), "'"));
}

std::string CallNumbers::RecordedAs(const std::string& sent) const {
  const std::string inside = CallIdIn(sent);
  for (const auto& [sequence, call_id] : recorded_) {
    if (call_id == sent || call_id == inside || sent.ends_with("-" + call_id)) return call_id;
  }
  return "";
}

bool CallNumbers::Holds(const v1::EpisodeRewardRequest& posted) const {
  return std::none_of(posted.call_rewards().begin(), posted.call_rewards().end(), [&](const v1::CallReward& named) {
    return named.call_case() == v1::CallReward::kTurn || RecordedAs(named.call_id()).empty();
  });
}

std::string CallNumbers::CallAt(int32_t turn) const {
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

}  // namespace ingot::gateway
