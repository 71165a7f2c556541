#include "gateway/episodes/snapshot_requests.h"

#include <algorithm>
#include <utility>

namespace ingot::gateway {

void SnapshotRequests::Post(const std::string& runner, const v1::NextSnapshotResponse& request) {
  base::MutexLock lock(mu_);
  Pending& posted = pending_[request.transfer_id().empty() ? request.snapshot_id() : request.transfer_id()];
  const bool ends = posted.what.ends() || request.ends();
  if (ends != posted.what.ends()) posted.sent.reset();  // the request now requests more than before
  posted.runner = runner;
  posted.what = request;
  posted.what.set_ends(ends);
  changed_.SignalAll();
}

absl::Status SnapshotRequests::Await(const std::string& snapshot_id, std::chrono::nanoseconds deadline) {
  base::MutexLock lock(mu_);
  const auto found = pending_.find(snapshot_id);
  if (found == pending_.end()) return absl::FailedPreconditionError("its episode has ended in the meantime");
  const std::string runner = found->second.runner;
  ++found->second.waiters;
  while (true) {
    const auto request = pending_.find(snapshot_id);
    if (request == pending_.end()) return absl::FailedPreconditionError("its episode has ended in the meantime");
    const bool over = closed_ || clock_.Now() >= deadline;
    if (!request->second.answer.has_value() && !over) {
      clock_.WaitUntil(changed_, mu_, deadline);
      continue;
    }
    const std::optional<std::string> answer = request->second.answer;
    if (--request->second.waiters == 0) Settle(request);
    if (!answer.has_value()) {
      return absl::DeadlineExceededError(absl::StrCat("the runner '", runner, "' did not take the snapshot in time"));
    }
    return answer->empty() ? absl::OkStatus() : absl::FailedPreconditionError(*answer);
  }
}

void SnapshotRequests::Settle(std::map<std::string, Pending>::iterator request) {
  if (!request->second.what.ends()) {
    pending_.erase(request);
    return;
  }
  request->second.answer.reset();  // the waiters have their answer, but the episode has not ended yet
  changed_.SignalAll();
}

std::optional<v1::NextSnapshotResponse> SnapshotRequests::Send(const std::string& runner) {
  for (auto& [id, request] : pending_) {
    const bool again = !request.sent.has_value() || clock_.Now() >= *request.sent + kResendAfter;
    if (request.runner != runner || request.answer.has_value() || !again) continue;
    request.sent = clock_.Now();
    return request.what;
  }
  return std::nullopt;
}

std::optional<v1::NextSnapshotResponse> SnapshotRequests::Next(const std::string& runner,
                                                               std::chrono::nanoseconds wait) {
  const auto deadline = clock_.Now() + wait;
  base::MutexLock lock(mu_);
  while (!closed_) {
    if (auto sent = Send(runner)) return sent;
    if (clock_.Now() >= deadline) break;
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  return std::nullopt;
}

absl::Status SnapshotRequests::Taken(const v1::SnapshotTakenRequest& taken) {
  base::MutexLock lock(mu_);
  const auto request = pending_.find(taken.snapshot_id());
  if (request == pending_.end()) return absl::NotFoundError("this snapshot is no longer needed");
  if (request->second.what.ends() && request->second.waiters == 0)
    return absl::OkStatus();  // answered by the episode's end
  request->second.answer = taken.error();
  changed_.SignalAll();
  return absl::OkStatus();
}

void SnapshotRequests::ForgetTransfer(const std::string& transfer_id) {
  base::MutexLock lock(mu_);
  if (!transfer_id.empty()) pending_.erase(transfer_id);
}

void SnapshotRequests::Forget(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  std::erase_if(pending_, [&](const auto& request) { return request.second.what.episode_id() == episode_id; });
  changed_.SignalAll();
}

void SnapshotRequests::Close() {
  base::MutexLock lock(mu_);
  closed_ = true;
  changed_.SignalAll();
}

}  // namespace ingot::gateway
