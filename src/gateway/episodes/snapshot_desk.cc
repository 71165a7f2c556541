#include "gateway/episodes/snapshot_desk.h"

#include <algorithm>
#include <utility>

namespace ingot::gateway {

void SnapshotDesk::Post(const std::string& runner, const v1::NextSnapshotResponse& ask) {
  base::MutexLock lock(mu_);
  Ask& posted = asks_[ask.transfer_id().empty() ? ask.snapshot_id() : ask.transfer_id()];
  const bool ends = posted.what.ends() || ask.ends();
  if (ends != posted.what.ends()) posted.given.reset();  // the ask now requests more than before
  posted.runner = runner;
  posted.what = ask;
  posted.what.set_ends(ends);
  changed_.SignalAll();
}

absl::Status SnapshotDesk::Await(const std::string& snapshot_id, std::chrono::nanoseconds deadline) {
  base::MutexLock lock(mu_);
  const auto found = asks_.find(snapshot_id);
  if (found == asks_.end()) return absl::FailedPreconditionError("its episode has ended meanwhile");
  const std::string runner = found->second.runner;
  ++found->second.waiters;
  while (true) {
    const auto ask = asks_.find(snapshot_id);
    if (ask == asks_.end()) return absl::FailedPreconditionError("its episode has ended meanwhile");
    const bool over = closed_ || clock_.Now() >= deadline;
    if (!ask->second.answer.has_value() && !over) {
      clock_.WaitUntil(changed_, mu_, deadline);
      continue;
    }
    const std::optional<std::string> answer = ask->second.answer;
    if (--ask->second.waiters == 0) Settle(ask);
    if (!answer.has_value()) {
      return absl::DeadlineExceededError(absl::StrCat("the runner '", runner, "' has taken no snapshot in time"));
    }
    return answer->empty() ? absl::OkStatus() : absl::FailedPreconditionError(*answer);
  }
}

void SnapshotDesk::Settle(std::map<std::string, Ask>::iterator ask) {
  if (!ask->second.what.ends()) {
    asks_.erase(ask);
    return;
  }
  ask->second.answer.reset();  // the waiters have their answer, but the episode has not ended yet
  changed_.SignalAll();
}

std::optional<v1::NextSnapshotResponse> SnapshotDesk::Give(const std::string& runner) {
  for (auto& [id, ask] : asks_) {
    const bool again = !ask.given.has_value() || clock_.Now() >= *ask.given + kGiveAgainAfter;
    if (ask.runner != runner || ask.answer.has_value() || !again) continue;
    ask.given = clock_.Now();
    return ask.what;
  }
  return std::nullopt;
}

std::optional<v1::NextSnapshotResponse> SnapshotDesk::Next(const std::string& runner, std::chrono::nanoseconds wait) {
  const auto deadline = clock_.Now() + wait;
  base::MutexLock lock(mu_);
  while (!closed_) {
    if (auto given = Give(runner)) return given;
    if (clock_.Now() >= deadline) break;
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  return std::nullopt;
}

absl::Status SnapshotDesk::Taken(const v1::SnapshotTakenRequest& taken) {
  base::MutexLock lock(mu_);
  const auto ask = asks_.find(taken.snapshot_id());
  if (ask == asks_.end()) return absl::NotFoundError("this snapshot is no longer needed");
  if (ask->second.what.ends() && ask->second.waiters == 0) return absl::OkStatus();  // answered by the episode's end
  ask->second.answer = taken.error();
  changed_.SignalAll();
  return absl::OkStatus();
}

void SnapshotDesk::ForgetTransfer(const std::string& transfer_id) {
  base::MutexLock lock(mu_);
  if (!transfer_id.empty()) asks_.erase(transfer_id);
}

void SnapshotDesk::Forget(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  std::erase_if(asks_, [&](const auto& ask) { return ask.second.what.episode_id() == episode_id; });
  changed_.SignalAll();
}

void SnapshotDesk::Close() {
  base::MutexLock lock(mu_);
  closed_ = true;
  changed_.SignalAll();
}

}  // namespace ingot::gateway
