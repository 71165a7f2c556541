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
    for (Idle* idle : idle_) {
      idle->woken = true;
      idle->wake.Signal();
    }
    idle_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::TrySubmit(std::function<void()> job) {
  base::MutexLock lock(mu_);
  if (closed_ || jobs_.size() >= max_queued_) return false;
  Hand(std::move(job));
  return true;
}

void WorkerPool::Submit(std::function<void()> job) {
  base::MutexLock lock(mu_);
  Hand(std::move(job));
}

void WorkerPool::Hand(std::function<void()> job) {
  if (idle_.empty()) {
    jobs_.push_back(std::move(job));
    return;
  }
  Idle* const idle = idle_.back();
  idle_.pop_back();
  idle->job = std::move(job);
  idle->woken = true;
  idle->wake.Signal();
}

size_t WorkerPool::queued() const {
  base::MutexLock lock(mu_);
  return jobs_.size();
}

size_t WorkerPool::idle() const {
  base::MutexLock lock(mu_);
  return idle_.size();
}

void WorkerPool::Run() {
  Idle self;
  while (true) {
    std::function<void()> job;
    {
      base::MutexLock lock(mu_);
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      } else if (closed_) {
        return;
      } else {
        self.woken = false;
        idle_.push_back(&self);
        while (!self.woken) self.wake.Wait(mu_);
        job = std::exchange(self.job, nullptr);
      }
    }
    if (job) job();
  }
}

}  // namespace ingot::gateway
