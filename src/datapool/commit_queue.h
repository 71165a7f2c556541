// A queue of mutations from many threads, written together (group commit). The thread at the head of the queue applies
// all waiting mutations to one batch, one after the other, and writes the batch with one fsync. The others sleep.
//
// Mutations are serial: each sees the earlier mutations, and nothing else writes the database during a batch. Thread
// safe. Run blocks for at most two fsyncs: the one in progress and its own.
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
  // Reads and changes the batch and the counters. An error undoes all its changes.
  using Mutation = std::function<absl::Status(Database::Batch& batch, v1::PoolStatusResponse& counters)>;

  CommitQueue(Database& database, size_t max_waiting) : database_(database), max_waiting_(max_waiting) {}

  // Returns the mutation's status; if OK, its changes are durable. If other processes write the database too, a commit
  // confirms every status, and the commit's error replaces it. RESOURCE_EXHAUSTED, with a time to wait, if
  // `max_waiting` mutations wait already.
  absl::Status Run(const Mutation& mutation);

 private:
  struct Waiter {
    const Mutation* mutation;
    absl::Status status;
    bool done = false;
    base::CondVar wake;
  };

  // Commits the first waiters, at least one, sets their status and returns their number.
  size_t Commit(const std::deque<Waiter*>& waiters);
  absl::Status LoadCounters(Database::Batch& batch);

  Database& database_;
  const size_t max_waiting_;
  base::Mutex mu_;
  std::deque<Waiter*> queue_ ABSL_GUARDED_BY(mu_);
  // Used only by the thread at the head of the queue.
  bool loaded_ = false;              // counters_ equals the stored counters
  v1::PoolStatusResponse counters_;  // after the last commit
};

}  // namespace ingot::datapool
