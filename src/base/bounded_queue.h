// A bounded, closable queue between two stages. Thread safe. Close unblocks everyone; what was pushed before it can
// still be popped. Pop tells item, timeout and end apart by status: OK, DEADLINE_EXCEEDED, CANCELLED.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::base {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False, without blocking, if the queue is full or closed.
  bool TryPush(T item) {
    MutexLock lock(mu_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    changed_.SignalAll();
    return true;
  }

  // Blocks while the queue is full. CANCELLED once closed, DEADLINE_EXCEEDED after `timeout`.
  absl::Status Push(T item, std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mu_);
    while (!closed_ && items_.size() >= capacity_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0) return absl::DeadlineExceededError("queue stayed full");
      changed_.WaitFor(mu_, left);
    }
    if (closed_) return absl::CancelledError("queue closed");
    items_.push_back(std::move(item));
    changed_.SignalAll();
    return absl::OkStatus();
  }

  // Blocks while the queue is empty and open.
  absl::StatusOr<T> Pop(std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mu_);
    while (!closed_ && items_.empty()) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0) return absl::DeadlineExceededError("queue stayed empty");
      changed_.WaitFor(mu_, left);
    }
    if (items_.empty()) return absl::CancelledError("queue closed");
    T item = std::move(items_.front());
    items_.pop_front();
    changed_.SignalAll();
    return item;
  }

  void Close() {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.SignalAll();
  }

  size_t size() const {
    MutexLock lock(mu_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::base
