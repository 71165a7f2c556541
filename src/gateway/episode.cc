#include "gateway/episode.h"

#include <cmath>
#include <utility>

#include "gateway/api_error.h"

namespace ingot::gateway {
namespace {

constexpr size_t kMaxSignals = 256;
constexpr size_t kMaxSignalName = 256;

}  // namespace

absl::Status EpisodeOver(const std::string& episode_id) {
  return ApiError(410, "episode_over", "", absl::StrCat("episode ", episode_id, " has ended: open a new one"));
}

absl::StatusOr<int32_t> Episode::BeginCall(const std::shared_ptr<ChatCall>& call, int max_calls,
                                           std::chrono::nanoseconds now) {
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return EpisodeOver(id());
  if (next_sequence_ >= max_calls && !session_) {
    return ApiError(
        409, "episode_call_limit", "",
        absl::StrCat("episode ", id(), " has made ", max_calls, " calls, its limit (max_calls_per_episode)"));
  }
  if (static_cast<int>(history_.size()) >= max_calls) {
    history_ = History();
    ++epoch_;
  }
  in_flight_.insert(call);
  last_activity_ = now;
  return next_sequence_++;
}

void Episode::EndCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now) {
  base::MutexLock lock(mu_);
  in_flight_.erase(call);
  last_activity_ = now;
  changed_.SignalAll();
}

Episode::Plan Episode::PlanPrompt(const text::Conversation& conversation, const ConversationKeys& keys,
                                  const History::EchoedIds& echoed) const {
  base::MutexLock lock(mu_);
  Plan plan;
  plan.epoch = epoch_;
  plan.match = history_.Find(conversation, keys, echoed);
  plan.with_reasoning = history_.WithReasoning(conversation, keys);
  if (plan.match.parent < 0) return plan;
  plan.parent_call_id = history_.call_id(plan.match.parent);
  plan.parent_turn = history_.Sampled(plan.match.parent);
  for (const Piece* piece : history_.Path(plan.match.parent)) plan.path.push_back(*piece);
  return plan;
}

void Episode::AddToHistory(const Plan& plan, const ConversationKeys& keys, const text::Message& delivered,
                           const std::string& call_id, std::vector<Piece> prompt, std::vector<Piece> sampled) {
  base::MutexLock lock(mu_);
  if (plan.epoch != epoch_) return;  // its parent was forgotten meanwhile
  history_.Add(AskedKey::Of(keys), delivered, call_id, plan.match.parent, std::move(prompt), std::move(sampled));
}

absl::Status Episode::SetReward(std::optional<double> reward, const std::map<std::string, double>& signals) {
  if (reward.has_value() && !std::isfinite(*reward)) return BadRequest("reward", "'reward' must be a finite number");
  for (const auto& [name, number] : signals) {
    if (!std::isfinite(number)) {
      return BadRequest("signals", absl::StrCat("signal '", name, "' must be a finite number"));
    }
    if (name.empty() || name.size() > kMaxSignalName) {
      return BadRequest("signals", absl::StrCat("a signal's name must have 1 to ", kMaxSignalName, " bytes"));
    }
  }
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return EpisodeOver(id());
  std::map<std::string, double> merged = signals;
  merged.insert(signals_.begin(), signals_.end());  // keeps what `signals` says
  if (merged.size() > kMaxSignals) {
    return BadRequest("signals", absl::StrCat("an episode has at most ", kMaxSignals, " signals"));
  }
  signals_ = std::move(merged);
  if (reward.has_value()) reward_ = reward;
  return absl::OkStatus();
}

absl::StatusOr<Episode::End> Episode::StartEnd(v1::EpisodeState state, const std::string& detail, int64_t now_unix_ns,
                                               std::chrono::nanoseconds timeout) {
  base::MutexLock lock(mu_);
  while (end_running_) {
    if (!changed_.WaitFor(mu_, timeout) && end_running_) {
      return absl::DeadlineExceededError(absl::StrCat("episode ", id(), " is still being ended by another request"));
    }
  }
  if (state_ != State::kOpen && (end_.state() != state || end_.detail() != detail)) {
    return ApiError(409, "episode_over", "",
                    absl::StrCat("episode ", id(), " was ended as ", v1::EpisodeState_Name(end_.state()), " (",
                                 end_.detail(), "): it cannot be ended otherwise"));
  }
  if (state_ == State::kEnded) return End{.already = true, .request = {}, .in_flight = {}};
  if (state_ == State::kOpen) {
    if (state == v1::EPISODE_FINISHED && !reward_.has_value() && record_.purpose() != v1::PURPOSE_SERVE) {
      return ApiError(409, "no_reward", "",
                      absl::StrCat("episode ", id(), " has no reward: set one before it is ended as finished"));
    }
    state_ = State::kEnding;
    end_.set_episode_id(id());
    end_.set_state(state);
    end_.set_reward(state == v1::EPISODE_FINISHED ? reward_.value_or(0) : 0);
    for (const auto& [name, number] : signals_) (*end_.mutable_signals())[name] = number;
    end_.set_detail(detail);
    end_.set_ended_unix_ns(now_unix_ns);
  }
  end_running_ = true;
  return End{.already = false, .request = end_, .in_flight = {in_flight_.begin(), in_flight_.end()}};
}

absl::Status Episode::WaitForCalls(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  base::MutexLock lock(mu_);
  while (!in_flight_.empty()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(in_flight_.size(), " calls of episode ", id(), " are still being recorded: end it again later"));
    }
    changed_.WaitFor(mu_, left);
  }
  return absl::OkStatus();
}

void Episode::FinishEnd(bool ok) {
  base::MutexLock lock(mu_);
  end_running_ = false;
  if (ok) {
    state_ = State::kEnded;
    history_ = History();
  }
  changed_.SignalAll();
}

std::optional<std::pair<v1::EpisodeState, std::string>> Episode::unfinished_end() const {
  base::MutexLock lock(mu_);
  if (state_ != State::kEnding || end_running_) return std::nullopt;
  return std::pair(end_.state(), end_.detail());
}

std::chrono::nanoseconds Episode::last_activity() const {
  base::MutexLock lock(mu_);
  return last_activity_;
}

bool Episode::idle() const {
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && in_flight_.empty();
}

}  // namespace ingot::gateway
