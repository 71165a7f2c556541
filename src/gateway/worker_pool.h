// Threads for what blocks (pool writes, admission) or takes long (parsing and rendering large requests), so that
// threads that serve sockets and the engine's own never wait. Thread safe. Destruction runs what is queued, then joins.
//
// Of the threads that have nothing to do, the one that was busy last gets the next job: while there is little to do a
// few threads do all of it, whose caches and whose heaps of the allocator are warm, and the others sleep.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ingot::gateway {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t max_queued);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False if `max_queued` jobs wait already: the caller refuses its request.
  bool TrySubmit(std::function<void()> job);
  // Never refuses: for the second half of what TrySubmit let in. Bounded by the caller's own limit of such requests.
  void Submit(std::function<void()> job);
  // Jobs that no thread has taken yet.
  size_t queued() const;
  // Threads that have nothing to do.
  size_t idle() const;

 private:
  // A thread that waits. It lives on that thread's stack, and is left alone once it was woken.
  struct Idle {
    base::CondVar wake;
    std::function<void()> job;  // what it was woken for; null: the pool closes
    bool woken = false;
  };

  void Run();
  // Gives the job to a thread that waits, or queues it.
  void Hand(std::function<void()> job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_queued_;
  mutable base::Mutex mu_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);  // empty while anybody waits
  std::vector<Idle*> idle_ ABSL_GUARDED_BY(mu_);                 // the one that was busy last at the end
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace ingot::gateway
