#include "datapool/commit_queue.h"

#include "base/retry.h"
#include "base/waits.h"

namespace ingot::datapool {
namespace {

constexpr size_t kMaxBatchBytes = 16 << 20;  // limits a batch's memory; one fsync of this size is efficient
constexpr int64_t kWaitMs = 100;

}  // namespace

absl::Status CommitQueue::Run(const Mutation& mutation) {
  Waiter waiter{.mutation = &mutation, .status = {}, .done = false, .wake = {}};
  base::MutexLock lock(mu_);
  if (queue_.size() >= max_waiting_) {
    return base::WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                    max_waiting_, " mutations are already waiting for the pool's disk; retry later")),
                                kWaitMs);
  }
  queue_.push_back(&waiter);
  while (!waiter.done && queue_.front() != &waiter) waiter.wake.Wait(mu_);  // set by the thread below
  if (waiter.done) return waiter.status;

  const base::Wait wait("the pool's disk, or its database");
  const std::deque<Waiter*> waiters = queue_;
  mu_.Unlock();
  const size_t committed = Commit(waiters);
  mu_.Lock();
  for (size_t i = 0; i < committed; ++i) {
    queue_.front()->done = true;
    queue_.front()->wake.Signal();
    queue_.pop_front();
  }
  if (!queue_.empty()) queue_.front()->wake.Signal();
  return waiter.status;
}

size_t CommitQueue::Commit(const std::deque<Waiter*>& waiters) {
  absl::Status ready = database_.CheckWritable();
  if (database_.failed()) {
    ready = database_.Recover();
    loaded_ = false;  // the files may contain the failed write
  }
  const std::unique_ptr<Database::Batch> batch = ready.ok() ? database_.NewBatch() : nullptr;
  if (ready.ok() && (!loaded_ || database_.shared())) ready = LoadCounters(*batch);
  if (!ready.ok()) {
    for (Waiter* waiter : waiters) waiter->status = ready;
    return waiters.size();
  }
  v1::PoolStatusResponse counters = counters_;
  size_t committed = 0;
  const Waiter* damaged = nullptr;  // its statement found damage, which broke the connection
  while (committed < waiters.size() && (committed == 0 || batch->bytes() < kMaxBatchBytes)) {
    Waiter& waiter = *waiters[committed++];
    const v1::PoolStatusResponse before = counters;
    batch->SetSavePoint();
    waiter.status = (*waiter.mutation)(*batch, counters);
    if (waiter.status.ok()) {
      batch->ReleaseSavePoint();
    } else {
      counters = before;
      if (const absl::Status status = batch->RollbackToSavePoint(); !status.ok()) waiter.status = status;
      if (damaged == nullptr && absl::IsDataLoss(waiter.status) && database_.failed()) damaged = &waiter;
    }
  }
  // Shared records are written even without a change. OK for a repeated mutation promises that the first one is
  // durable, but another thread or process may have sent it and may still be waiting. A rejection is based on rows from
  // a server that may have been replaced. Only an acknowledged commit shows that the server leads.
  const bool changed = !batch->empty() || counters.SerializeAsString() != counters_.SerializeAsString();
  if (!changed && !database_.shared()) return committed;
  batch->Put(kMeta, "counters", counters.SerializeAsString());
  if (const absl::Status written = database_.Write(*batch); written.ok()) {
    counters_ = counters;
  } else {
    for (size_t i = 0; i < committed; ++i) {
      absl::Status& status = waiters[i]->status;
      const bool rejected = !status.ok() && !absl::IsUnavailable(status) && waiters[i] != damaged;
      if (status.ok() || (rejected && database_.shared())) status = written;
    }
  }
  return committed;
}

absl::Status CommitQueue::LoadCounters(Database::Batch& batch) {
  const absl::StatusOr<std::string> stored = batch.Get(kMeta, "counters");
  if (!stored.ok() && !absl::IsNotFound(stored.status())) return stored.status();
  counters_.Clear();
  if (stored.ok() && !counters_.ParseFromString(*stored)) return absl::DataLossError("the pool's counters are damaged");
  loaded_ = true;
  return absl::OkStatus();
}

}  // namespace ingot::datapool
