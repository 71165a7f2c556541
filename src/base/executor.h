// An Executor owns threads and runs tasks on them, either immediately or at a given time on its clock.
//
//   TryPost, Post --> queue, FIFO --> an idle thread --> task
//   PostAt, PostAfter, PostEvery --> timers, by due time --^
//
// Tasks start in the order they were posted or became due. The most recently idle thread runs the next task, so a light
// load stays on a few threads with warm caches and allocator heaps. One idle thread waits for the next timer. If all
// threads are busy, a due timer waits for a thread. Tasks may block, in which case the executor should have one thread
// per task. Tasks must not throw.
//
// Shutdown proceeds in this order:
// 1. TryPost fails, and timers that are not due are destroyed without running.
// 2. The threads run the queued tasks and any tasks that those post.
// 3. The threads are joined.
// 4. Later Post calls drop their tasks.
//
// An executor without threads runs its tasks only inside RunReady. With a ManualClock, this makes deadline tests
// deterministic (tests/base/manual_executor.h).
//
// boost::asio::thread_pool is not used because its queue is unbounded, it does not choose which thread to wake, and its
// timers are tied to a clock type, while tests need to inject a clock object.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::base {

class Timer;

using Task = absl::AnyInvocable<void()>;

struct ExecutorOptions {
  std::string name = "executor";  // used in errors and as the thread name, which the system truncates to 15 bytes
  int threads = 1;                // 0 = RunReady runs the tasks
  size_t max_queued = std::numeric_limits<size_t>::max();  // TryPost's limit on tasks that no thread has taken
};

// Thread safe, except for Shutdown and the destructor. Those must be called by a single thread, and never from one of
// this executor's tasks.
class Executor {
 public:
  // `clock` must outlive the executor. Throws std::system_error if the system cannot start a thread.
  explicit Executor(ExecutorOptions options, const Clock& clock = Clock::Real());
  ~Executor();  // calls Shutdown()
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns RESOURCE_EXHAUSTED if options.max_queued tasks are already queued, or CANCELLED if Shutdown has begun. In
  // both cases, the task is dropped.
  absl::Status TryPost(Task task);
  // Ignores the queue limit. Used to continue a job that TryPost accepted.
  void Post(Task task);

  // Runs `task` once, at `moment` or after `delay`, unless the Timer is destroyed first.
  Timer PostAt(std::chrono::nanoseconds moment, Task task);
  Timer PostAfter(std::chrono::nanoseconds delay, Task task);
  // Runs `task` repeatedly: first after `period`, and then `period` after the previous run ended. REQUIRES: period > 0.
  Timer PostEvery(std::chrono::nanoseconds period, Task task);

  // Returns RESOURCE_EXHAUSTED if the system cannot start more threads; threads already started are kept. Returns
  // CANCELLED if Shutdown has begun.
  absl::Status AddThreads(int count);
  void Shutdown();

  // Runs queued tasks and due timers on this thread until there are none left. Returns the number of tasks that ran.
  // Only for executors without threads.
  int RunReady();
  // Returns the time of the earliest timer, or nullopt if there is none.
  std::optional<std::chrono::nanoseconds> NextDue() const;

  size_t queued() const;  // tasks that no thread has taken
  size_t idle() const;    // threads without a task
  const Clock& clock() const { return clock_; }

 private:
  friend class Timer;

  // A thread between two tasks. Allocated on that thread's stack. Removed from idle_ before it is woken.
  struct Worker {
    CondVar wake;
    Task task;  // null = check the queue again
    bool woken = false;
  };
  // The state of a Timer. Guarded by mu_, except while `task` runs.
  struct Alarm {
    Task task;
    std::chrono::nanoseconds due;
    std::chrono::nanoseconds period;  // 0 = fires once
    uint64_t order = 0;               // key in timers_, together with `due`
    bool cancelled = false;
    std::optional<std::thread::id> ringing;  // the thread that is running `task`
  };

  void Run();
  Task NextTask(Worker& self);  // blocks; null = the executor has shut down
  void Hand(Task task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake(Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandDueTimers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Timer Schedule(std::chrono::nanoseconds due, std::chrono::nanoseconds period, Task task);
  void Insert(std::shared_ptr<Alarm> alarm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Ring(const std::shared_ptr<Alarm>& alarm);
  void Cancel(Alarm& alarm);

  const ExecutorOptions options_;
  const Clock& clock_;
  mutable Mutex mu_;
  CondVar rung_;                                             // signaled when a timer's task returns
  std::deque<Task> queue_ ABSL_GUARDED_BY(mu_);              // empty while a thread is idle
  std::vector<Worker*> idle_ ABSL_GUARDED_BY(mu_);           // the most recently idle thread is at the back
  const Worker* timekeeper_ ABSL_GUARDED_BY(mu_) = nullptr;  // idle_.front() while it waits for the first timer
  std::map<std::pair<std::chrono::nanoseconds, uint64_t>, std::shared_ptr<Alarm>> timers_ ABSL_GUARDED_BY(mu_);
  uint64_t next_order_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;  // Shutdown has begun
  bool ended_ ABSL_GUARDED_BY(mu_) = false;   // threads no longer take tasks
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

// Keeps a timed task scheduled. The executor must outlive the Timer.
class [[nodiscard]] Timer {
 public:
  Timer() = default;  // refers to no task
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { Cancel(); }

  // Ensures that the task does not run again, and destroys it. Waits for a run in progress, unless called from the task
  // itself.
  void Cancel();

 private:
  friend class Executor;
  Timer(Executor* executor, std::shared_ptr<Executor::Alarm> alarm) : executor_(executor), alarm_(std::move(alarm)) {}

  Executor* executor_ = nullptr;
  std::shared_ptr<Executor::Alarm> alarm_;
};

}  // namespace ingot::base
