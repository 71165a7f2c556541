#include "base/executor.h"

#include <pthread.h>

#include <system_error>

namespace ingot::base {

using std::chrono::nanoseconds;

Executor::Executor(ExecutorOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {
  if (const absl::Status started = AddThreads(options_.threads); !started.ok()) {
    Shutdown();
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            std::string(started.message()));
  }
}

Executor::~Executor() { Shutdown(); }

absl::Status Executor::AddThreads(int count) {
  const MutexLock lock(mu_);
  if (closed_) return absl::CancelledError(absl::StrCat(options_.name, " is shutting down"));
  for (int i = 0; i < count; ++i) {
    try {
      threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start thread ", threads_.size() + 1, " of ", options_.name, ": ", error.what()));
    }
  }
  return absl::OkStatus();
}

void Executor::Shutdown() {
  decltype(timers_) timers;
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mu_);
    closed_ = true;
    timers.swap(timers_);
    threads.swap(threads_);
    while (!idle_.empty()) Wake(*idle_.back());
  }
  if (threads.empty()) RunReady();
  for (std::thread& thread : threads) thread.join();
  decltype(queue_) queue;  // tasks posted by other threads since the last worker ended
  const MutexLock lock(mu_);
  ended_ = true;
  queue.swap(queue_);
}

// --- tasks ---

absl::Status Executor::TryPost(Task task) {
  const MutexLock lock(mu_);
  if (closed_) return absl::CancelledError(absl::StrCat(options_.name, " is shutting down"));
  if (queue_.size() >= options_.max_queued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue of ", options_.name, " is full: ", queue_.size(), " tasks wait"));
  }
  Hand(std::move(task));
  return absl::OkStatus();
}

void Executor::Post(Task task) {
  const MutexLock lock(mu_);
  if (!ended_) Hand(std::move(task));
}

void Executor::Hand(Task task) {
  if (idle_.empty()) {
    queue_.push_back(std::move(task));
    return;
  }
  Worker& worker = *idle_.back();
  worker.task = std::move(task);
  Wake(worker);
}

void Executor::Wake(Worker& worker) {
  std::erase(idle_, &worker);
  if (timekeeper_ == &worker) timekeeper_ = nullptr;
  worker.woken = true;
  worker.wake.Signal();
}

void Executor::Run() {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  Worker self;
  while (Task task = NextTask(self)) task();
}

Task Executor::NextTask(Worker& self) {
  const MutexLock lock(mu_);
  while (true) {
    HandDueTimers();
    if (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      return task;
    }
    if (closed_) return nullptr;
    self.woken = false;
    if (timekeeper_ == nullptr && !timers_.empty()) {
      timekeeper_ = &self;
      idle_.insert(idle_.begin(), &self);  // gets a task only after all others
    } else {
      idle_.push_back(&self);
    }
    while (!self.woken) {
      if (timekeeper_ != &self || timers_.empty()) {
        self.wake.Wait(mu_);
      } else if (!clock_.WaitUntil(self.wake, mu_, timers_.begin()->first.first) && !self.woken) {
        Wake(self);  // checks the timers
      }
    }
    if (self.task) return std::exchange(self.task, nullptr);
  }
}

int Executor::RunReady() {
  for (int count = 0;; ++count) {
    Task task;
    {
      const MutexLock lock(mu_);
      HandDueTimers();
      if (queue_.empty()) return count;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

// --- timers ---

Timer Executor::PostAt(nanoseconds moment, Task task) { return Schedule(moment, nanoseconds(0), std::move(task)); }

Timer Executor::PostAfter(nanoseconds delay, Task task) { return PostAt(clock_.Now() + delay, std::move(task)); }

Timer Executor::PostEvery(nanoseconds period, Task task) {
  return Schedule(clock_.Now() + period, period, std::move(task));
}

Timer Executor::Schedule(nanoseconds due, nanoseconds period, Task task) {
  auto alarm = std::make_shared<Alarm>(Alarm{.task = std::move(task), .due = due, .period = period, .ringing = {}});
  {
    const MutexLock lock(mu_);
    if (!closed_) Insert(alarm);
  }
  return {this, std::move(alarm)};
}

void Executor::Insert(std::shared_ptr<Alarm> alarm) {
  alarm->order = next_order_++;
  const auto [first, inserted] = timers_.emplace(std::pair(alarm->due, alarm->order), std::move(alarm));
  if (first != timers_.begin() || idle_.empty()) return;
  timekeeper_ = idle_.front();
  idle_.front()->wake.Signal();  // it must now wait for a different first timer
}

void Executor::HandDueTimers() {
  if (timers_.empty()) return;
  const nanoseconds now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    std::shared_ptr<Alarm> alarm = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    Hand([this, alarm = std::move(alarm)] { Ring(alarm); });
  }
}

void Executor::Ring(const std::shared_ptr<Alarm>& alarm) {
  {
    const MutexLock lock(mu_);
    if (alarm->cancelled) return;
    alarm->ringing = std::this_thread::get_id();
  }
  alarm->task();
  Task over;
  const MutexLock lock(mu_);
  alarm->ringing.reset();
  rung_.SignalAll();
  if (alarm->period.count() > 0 && !alarm->cancelled && !closed_) {
    alarm->due = clock_.Now() + alarm->period;
    Insert(alarm);
  } else {
    over = std::move(alarm->task);
  }
}

void Executor::Cancel(Alarm& alarm) {
  Task dropped;
  const MutexLock lock(mu_);
  alarm.cancelled = true;
  timers_.erase({alarm.due, alarm.order});
  if (alarm.ringing == std::this_thread::get_id()) return;
  while (alarm.ringing.has_value()) rung_.Wait(mu_);
  dropped = std::move(alarm.task);
}

std::optional<nanoseconds> Executor::NextDue() const {
  const MutexLock lock(mu_);
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.first;
}

size_t Executor::queued() const {
  const MutexLock lock(mu_);
  return queue_.size();
}

size_t Executor::idle() const {
  const MutexLock lock(mu_);
  return idle_.size();
}

Timer::Timer(Timer&& other) noexcept : executor_(other.executor_), alarm_(std::move(other.alarm_)) {}

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this == &other) return *this;
  Cancel();
  executor_ = other.executor_;
  alarm_ = std::move(other.alarm_);
  return *this;
}

void Timer::Cancel() {
  if (alarm_ != nullptr) executor_->Cancel(*alarm_);
  alarm_.reset();
}

}  // namespace ingot::base
