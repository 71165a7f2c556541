// The gate of an episode: requests wait there while a snapshot is taken, and in a trunk at its fork.
#include <utility>

#include "gateway/episodes/episode.h"

namespace ingot::gateway {

void Episode::MarkTaken() {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  taken_ = true;
  resumed.requests = std::exchange(waiting_, {});
}

bool Episode::Pass(std::function<void()> resume) {
  base::MutexLock lock(mu_);
  if (state_ == State::kOpen && !taken_ && (shut_ > 0 || AtFork())) {
    waiting_.push_back(std::move(resume));
    last_activity_ = clock_.Now();
    return false;
  }
  ++passed_;
  return true;
}

void Episode::Leave() {
  base::MutexLock lock(mu_);
  --passed_;
  changed_.SignalAll();
}

Episode::Place Episode::PlaceNow() const {
  if (recorded_.empty()) return {.call_id = "", .calls = first_sequence_};
  return {.call_id = recorded_.rbegin()->second, .calls = recorded_.rbegin()->first + 1};
}

absl::StatusOr<Episode::Place> Episode::ShutGate(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  ++shut_;
  while (state_ == State::kOpen && (passed_ > 0 || !in_flight_.empty()) && clock_.Now() < deadline) {
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  if (state_ == State::kOpen && passed_ == 0 && in_flight_.empty()) return PlaceNow();
  --shut_;
  resumed.requests = TakeWaiting();
  if (state_ != State::kOpen) return EpisodeOver(id());
  return absl::DeadlineExceededError(
      absl::StrCat("a call of episode ", id(), " is in flight still: a snapshot is taken between two calls"));
}

void Episode::OpenGate() {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  --shut_;
  resumed.requests = TakeWaiting();
}

std::vector<std::function<void()>> Episode::TakeWaiting() {
  if (state_ == State::kOpen && (shut_ > 0 || AtFork())) return {};
  return std::exchange(waiting_, {});
}

std::optional<Episode::Place> Episode::TakeForkPlace() {
  base::MutexLock lock(mu_);
  const bool idle = passed_ == 0 && in_flight_.empty();
  if (state_ != State::kOpen || !AtFork() || waiting_.empty() || !idle || fork_taken_) return std::nullopt;
  fork_taken_ = true;
  return PlaceNow();
}

}  // namespace ingot::gateway
