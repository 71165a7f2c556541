// Implements the episode gate. Requests wait there while a snapshot is taken and, in a trunk, at the fork.
#include <utility>

#include "gateway/episodes/episode.h"

namespace ingot::gateway {

void Episode::MarkTaken() {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  taken_ = true;
  resumed.requests = gate_.TakeWaiting();
}

bool Episode::Pass(std::function<void()> resume) {
  base::MutexLock lock(mu_);
  if (state_ == State::kOpen && !taken_ && gate_.IsShut(numbers_.made())) {
    gate_.Wait(std::move(resume));
    last_activity_ = clock_.Now();
    return false;
  }
  gate_.Pass();
  return true;
}

void Episode::Leave() {
  base::MutexLock lock(mu_);
  gate_.Leave();
  changed_.SignalAll();
}

absl::StatusOr<Episode::Place> Episode::ShutGate(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  gate_.Shut();
  while (state_ == State::kOpen && (gate_.passed() > 0 || !in_flight_.empty()) && clock_.Now() < deadline) {
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  if (state_ == State::kOpen && gate_.passed() == 0 && in_flight_.empty()) return numbers_.LastPlace();
  gate_.Open();
  resumed.requests = TakeWaiting();
  if (state_ != State::kOpen) return Over();
  return absl::DeadlineExceededError(
      absl::StrCat("a call of episode ", id(), " is still in progress: a snapshot can only be taken between calls"));
}

void Episode::OpenGate() {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  gate_.Open();
  resumed.requests = TakeWaiting();
}

std::vector<std::function<void()>> Episode::TakeWaiting() {
  if (state_ == State::kOpen && gate_.IsShut(numbers_.made())) return {};
  return gate_.TakeWaiting();
}

std::optional<Episode::Place> Episode::TakeForkPlace() {
  base::MutexLock lock(mu_);
  const bool idle = gate_.passed() == 0 && in_flight_.empty();
  if (state_ != State::kOpen || !gate_.AtFork(numbers_.made()) || !idle || !gate_.TakeFork()) return std::nullopt;
  return numbers_.LastPlace();
}

}  // namespace ingot::gateway
