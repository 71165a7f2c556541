// Queues mutations from many threads and writes them together (group commit). The thread at the head of the queue
// applies all waiting mutations to one batch, in order, and writes the batch with one fsync. The other threads sleep.
//
// Mutations are serialized: each sees the effects of earlier ones, and nothing else writes to the database during a
// batch. Thread safe. Run blocks for at most two fsyncs: the one in progress and its own.
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
  // Reads and changes the batch and the counters. If it fails, all its changes are undone.
  using Mutation = std::function<absl::Status(Database::Batch& batch, v1::PoolStatusResponse& counters)>;

  CommitQueue(Database& database, size_t max_waiting) : database_(database), max_waiting_(max_waiting) {}

  // Returns the mutation's status. If OK, its changes are durable. If other processes also write to the database, every
  // status is confirmed by a commit, and a commit error replaces it. Returns RESOURCE_EXHAUSTED with a retry delay if
  // `max_waiting` mutations are already waiting.
  absl::Status Run(const Mutation& mutation);

 private:
  struct Waiter {
    const Mutation* mutation;
    absl::Status status;
    bool done = false;
    base::CondVar wake;
  };

  // Commits at least one waiter from the front, sets the status of each, and returns how many it committed.
  size_t Commit(const std::deque<Waiter*>& waiters);
  absl::Status LoadCounters(Database::Batch& batch);

  Database& database_;
  const size_t max_waiting_;
  base::Mutex mu_;
  std::deque<Waiter*> queue_ ABSL_GUARDED_BY(mu_);
  // Accessed only by the thread at the head of the queue.
  bool loaded_ = false;              // counters_ equals the stored counters
  v1::PoolStatusResponse counters_;  // after the last commit
};

}  // namespace ingot::datapool
