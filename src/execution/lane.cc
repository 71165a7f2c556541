#include "execution/lane.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace ingot::execution {
namespace {

constexpr std::chrono::seconds kIdle(5);  // how long an idle thread waits before it exits

}  // namespace

Lane::~Lane() {
  base::MutexLock lock(mu_);
  closed_ = true;
  changed_.SignalAll();
  while (threads_ > 0) changed_.Wait(mu_);
}

bool Lane::TryPost(base::Task task) {
  base::MutexLock lock(mu_);
  const bool needs_thread = std::ssize(queue_) >= idle_;
  const bool may_start = threads_ < most_threads_;
  if (needs_thread && !may_start && queue_.size() >= most_queued_ + static_cast<size_t>(idle_)) return false;
  queue_.push_back(std::move(task));
  changed_.Signal();
  if (!needs_thread || !may_start) return true;
  ++threads_;
  try {
    std::thread([this] { Run(); }).detach();  // The destructor waits for it.
  } catch (const std::system_error&) {
    if (--threads_ > 0) return true;
    queue_.pop_back();
    return false;
  }
  return true;
}

void Lane::Run() {
  while (base::Task task = NextTask()) {
    task();
  }
}

base::Task Lane::NextTask() {
  base::MutexLock lock(mu_);
  const auto end = std::chrono::steady_clock::now() + kIdle;
  ++idle_;
  while (queue_.empty() && !closed_ && std::chrono::steady_clock::now() < end)
    changed_.WaitFor(mu_, end - std::chrono::steady_clock::now());
  --idle_;
  if (queue_.empty()) {
    --threads_;
    changed_.SignalAll();
    return nullptr;
  }
  base::Task task = std::move(queue_.front());
  queue_.pop_front();
  return task;
}

}  // namespace ingot::execution
