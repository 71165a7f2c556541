// Implements an episode's outcome: its rewards and its end.
#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode.h"

namespace ingot::gateway {
namespace {

constexpr char kRejectedMark[] = "; the gateway's last rejection: ";
constexpr size_t kMaxRejection = 600;  // bytes

absl::Status StillStoring(const std::string& episode_id) {
  return absl::DeadlineExceededError(absl::StrCat("another request's reward for, or end of, episode ", episode_id,
                                                  " is still being stored: try again later"));
}

}  // namespace

std::string WithRejection(const std::string& detail, const std::string& rejection) {
  return rejection.empty() ? detail : absl::StrCat(detail, kRejectedMark, rejection);
}

std::string WithoutRejection(const std::string& detail) { return detail.substr(0, detail.find(kRejectedMark)); }

bool Episode::HoldsCalls(const v1::EpisodeRewardRequest& posted) const {
  base::MutexLock lock(mu_);
  return numbers_.Holds(posted);
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
  if (state_ == State::kOpen && !turns_.Await(clock_, mu_, changed_, clock_.Now() + timeout)) return StillStoring(id());
  if (state_ != State::kOpen) return Over();
  turns_.Begin();
  return RewardTurn(this);
}

void Episode::EndTurn::operator()(Episode* episode) const {
  base::MutexLock lock(episode->mu_);
  episode->turns_.End();
  episode->changed_.SignalAll();
}

absl::StatusOr<v1::StoreRewardRequest> Episode::StartReward(const v1::EpisodeRewardRequest& posted) {
  v1::StoreRewardRequest started;
  started.set_episode_id(id());
  started.set_gateway_token(record_.gateway_token());
  if (posted.has_reward()) started.set_reward(posted.reward());
  *started.mutable_signals() = posted.signals();
  *started.mutable_facts() = posted.facts();
  base::MutexLock lock(mu_);
  for (const v1::CallReward& named : posted.call_rewards()) {
    INGOT_ASSIGN_OR_RETURN(const std::string call, numbers_.Find(named, id()));
    (*started.mutable_call_rewards())[call] = named.reward();
  }
  INGOT_RETURN_IF_ERROR(earned_.Number(started, limits_.max_calls()));
  return started;
}

void Episode::CountReward(const v1::StoreRewardRequest& started) {
  base::MutexLock lock(mu_);
  earned_.Count(started);
}

bool Episode::lacks_reward() const {
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && !earned_.has_own();
}

void Episode::NoteStored(const v1::Episode& stored) {
  base::MutexLock lock(mu_);
  earned_.NoteStored(stored);
}

absl::StatusOr<Episode::End> Episode::StartEnd(const RequestedEnd& asked, std::chrono::nanoseconds timeout) {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  if (!turns_.Await(clock_, mu_, changed_, clock_.Now() + timeout)) return StillStoring(id());
  if (state_ == State::kOpen && asked.only_uncalled && called_) {
    return ApiError(
        409, "episode_called", "",
        absl::StrCat("episode ", id(), " has made a call, so its client is connected and the episode was not ended"));
  }
  const bool judged = state_ == State::kOpen && asked.finish_if_judged && earned_.has_own();
  const v1::EpisodeState state = judged ? v1::EPISODE_FINISHED : asked.state;
  const std::string detail = judged ? asked.detail + "; its reward had been posted" : asked.detail;
  if (state_ != State::kOpen && (end_.state() != state || end_detail_ != detail)) {
    return ApiError(409, "episode_over", "",
                    absl::StrCat("episode ", id(), " was ended as ", v1::EpisodeState_Name(end_.state()), " (",
                                 end_detail_, "): it cannot be ended with another outcome"));
  }
  std::string rejection = rejection_;
  if (!rejection.empty() && answered_since_ > 0) {
    absl::StrAppend(&rejection, " (later requests that were answered: ", answered_since_, ")");
  }
  if (state_ == State::kEnded) return End{.already = true, .rejection = rejection, .request = {}, .in_flight = {}};
  if (state_ == State::kOpen) {
    const bool finished = state == v1::EPISODE_FINISHED;
    const bool by_default = finished && !earned_.any() && asked.unless_rewarded.has_value();
    if (finished && !earned_.any() && !by_default && record_.purpose() != v1::PURPOSE_SERVE) {
      return ApiError(409, "no_reward", "",
                      absl::StrCat("episode ", id(), " has no reward: set one before it is ended as finished"));
    }
    state_ = State::kEnding;
    end_.set_episode_id(id());
    end_.set_gateway_token(record_.gateway_token());
    end_.set_state(state);
    if (by_default) {
      *end_.mutable_unless_rewarded() = *asked.unless_rewarded;
    } else if (finished) {  // otherwise the pool keeps the posted values
      earned_.CopyTo(end_);
    }
    end_detail_ = detail;
    end_.set_cause(judged ? "" : asked.cause);
    end_.set_detail(WithRejection(detail, rejection));
    end_.set_ended_unix_ns(UnixNanosAt(clock_.Now()));
    resumed.requests = TakeWaiting();
    changed_.SignalAll();
  }
  turns_.Begin();
  return End{.already = false, .rejection = std::move(rejection), .request = end_, .in_flight = in_flight_.All()};
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
  turns_.End();
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
  if (state_ != State::kEnding || turns_.storing()) return std::nullopt;
  return UnfinishedEnd{{.state = end_.state(), .detail = end_detail_, .cause = end_.cause()}, end_tries_};
}

}  // namespace ingot::gateway
