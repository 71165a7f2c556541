// An Executor owns threads and runs tasks on them, at once or at a moment of its clock.
//
//   TryPost, Post --> queue, FIFO --> an idle thread --> task
//   PostAt, PostAfter, PostEvery --> timers, by due time --^
//
// Tasks start in the order in which they were posted or came due. The thread that became idle last takes the next task:
// a small load stays on a few threads, whose caches and allocator heaps are warm. One idle thread waits for the next
// timer; while all threads are busy, a due timer waits for a thread. A task may block: an owner whose tasks block gives
// the executor a thread for each. Tasks do not throw.
//
// Shutdown, in this order:
//   1. TryPost fails, and timers that are not due are destroyed without a run;
//   2. the threads run the queued tasks, and the tasks that these Post;
//   3. the threads are joined;
//   4. a later Post drops its task.
//
// An executor without threads runs its tasks only inside RunReady. With a ManualClock, tests of deadlines are
// deterministic (tests/base/manual_executor.h).
//
// Not boost::asio::thread_pool: it has no bound, does not choose the thread that it wakes, and binds its timers to a
// clock by type. A test injects an object.
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
  std::string name = "executor";  // in errors, and for its threads in debuggers; the system shows 15 bytes of it
  int threads = 1;                // 0 = RunReady runs the tasks
  size_t max_queued = std::numeric_limits<size_t>::max();  // tasks that no thread has taken, for TryPost
};

// Thread safe, except Shutdown and the destructor: one thread calls them, and no task of this executor may.
class Executor {
 public:
  // `clock` outlives the executor. Throws std::system_error if the machine cannot start a thread.
  explicit Executor(ExecutorOptions options, const Clock& clock = Clock::Real());
  ~Executor();  // Shutdown()
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // RESOURCE_EXHAUSTED: options.max_queued tasks already wait. CANCELLED: Shutdown has begun. Both drop the task.
  absl::Status TryPost(Task task);
  // Ignores the bound: for the second half of a job that TryPost accepted.
  void Post(Task task);

  // Runs `task` once, at `moment` of the clock or `delay` from now, as long as the Timer lives.
  Timer PostAt(std::chrono::nanoseconds moment, Task task);
  Timer PostAfter(std::chrono::nanoseconds delay, Task task);
  // Runs `task` repeatedly, `period` after its last run ended, first `period` from now. REQUIRES: period > 0.
  Timer PostEvery(std::chrono::nanoseconds period, Task task);

  // RESOURCE_EXHAUSTED: the machine cannot start more threads; earlier threads stay. CANCELLED: Shutdown has begun.
  absl::Status AddThreads(int count);
  void Shutdown();

  // Runs queued tasks and due timers on this thread until there are none; returns their number. For an executor
  // without threads.
  int RunReady();
  // The moment of the earliest timer; nullopt: there is none.
  std::optional<std::chrono::nanoseconds> NextDue() const;

  size_t queued() const;  // tasks that no thread has taken
  size_t idle() const;    // threads that have nothing to do
  const Clock& clock() const { return clock_; }

 private:
  friend class Timer;

  // A thread between two tasks. It stands on that thread's stack and leaves idle_ before it is woken.
  struct Worker {
    CondVar wake;
    Task task;  // null: look at the queue again
    bool woken = false;
  };
  // The state of a Timer, guarded by mu_ but for a call of `task`.
  struct Alarm {
    Task task;
    std::chrono::nanoseconds due;
    std::chrono::nanoseconds period;  // 0 = rings once
    uint64_t order = 0;               // key in timers_, together with `due`
    bool cancelled = false;
    std::optional<std::thread::id> ringing;  // the thread inside `task`
  };

  void Run();
  Task NextTask(Worker& self);  // blocks; null: the executor has shut down
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
  CondVar rung_;                                             // a timer's task returned
  std::deque<Task> queue_ ABSL_GUARDED_BY(mu_);              // empty while a thread is idle
  std::vector<Worker*> idle_ ABSL_GUARDED_BY(mu_);           // the last thread to become idle is at the back
  const Worker* timekeeper_ ABSL_GUARDED_BY(mu_) = nullptr;  // idle_.front() while it waits for the first timer
  std::map<std::pair<std::chrono::nanoseconds, uint64_t>, std::shared_ptr<Alarm>> timers_ ABSL_GUARDED_BY(mu_);
  uint64_t next_order_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;  // Shutdown has begun
  bool ended_ ABSL_GUARDED_BY(mu_) = false;   // no thread will take another task
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

// The right of a task to run at its moment. The executor outlives it.
class [[nodiscard]] Timer {
 public:
  Timer() = default;  // of no task
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { Cancel(); }

  // The task will not start again and is destroyed. Waits for a run in progress, except inside that run.
  void Cancel();

 private:
  friend class Executor;
  Timer(Executor* executor, std::shared_ptr<Executor::Alarm> alarm) : executor_(executor), alarm_(std::move(alarm)) {}

  Executor* executor_ = nullptr;
  std::shared_ptr<Executor::Alarm> alarm_;
};

}  // namespace ingot::base
