// Group commit: mutations of many threads, staged one after the other into one batch, written with one fsync. The
// thread at the head of the queue commits for all that wait with it; the others sleep.
//
// Serial by construction: a stage sees everything staged before it, and nobody else writes. Thread safe. Run blocks for
// the fsync before its own and its own.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

class CommitQueue {
 public:
  // What a mutation does: reads and changes `batch` and the counters. An error undoes all its changes.
  using Stage = std::function<absl::Status(Database::Batch& batch, v1::PoolStatusResponse& counters)>;

  CommitQueue(Database& database, size_t max_waiting) : database_(database), max_waiting_(max_waiting) {}

  // The stage's status, once durable if OK. RESOURCE_EXHAUSTED, with a time to wait, if too many wait already.
  absl::Status Run(const Stage& stage);

 private:
  struct Waiter {
    const Stage* stage;
    absl::Status status;
    bool done = false;
    base::CondVar wake;
  };

  // How many of `waiters` it settled, from the first; at least one.
  size_t Commit(const std::deque<Waiter*>& waiters);
  absl::Status LoadCounters();

  Database& database_;
  const size_t max_waiting_;
  base::Mutex mu_;
  std::deque<Waiter*> queue_ ABSL_GUARDED_BY(mu_);
  // Only the thread at the head of the queue.
  bool loaded_ = false;
  v1::PoolStatusResponse counters_;  // as committed
};

}  // namespace ingot::datapool
