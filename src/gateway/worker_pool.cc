#include "gateway/worker_pool.h"

#include <utility>

namespace ingot::gateway {

WorkerPool::WorkerPool(int threads, size_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  {
    base::MutexLock lock(mu_);
    closed_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::TrySubmit(std::function<void()> job) {
  base::MutexLock lock(mu_);
  if (closed_ || jobs_.size() >= max_queued_) return false;
  jobs_.push_back(std::move(job));
  changed_.Signal();
  return true;
}

void WorkerPool::Submit(std::function<void()> job) {
  base::MutexLock lock(mu_);
  jobs_.push_back(std::move(job));
  changed_.Signal();
}

size_t WorkerPool::queued() const {
  base::MutexLock lock(mu_);
  return jobs_.size();
}

void WorkerPool::Run() {
  while (true) {
    std::function<void()> job;
    {
      base::MutexLock lock(mu_);
      while (jobs_.empty() && !closed_) changed_.Wait(mu_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace ingot::gateway
