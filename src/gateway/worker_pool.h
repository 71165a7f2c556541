// Threads for what blocks (pool writes, admission) or takes long (parsing and rendering large requests), so that
// threads that serve sockets and the engine's own never wait. Thread safe. Destruction runs what is queued, then joins.
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
  size_t queued() const;

 private:
  void Run();

  const size_t max_queued_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace ingot::gateway
