// Describes a process's current work to people who are waiting for it: the work, its open parts, and their progress.
//
//   base::WorkPart step("step 4");                                            the work
//   base::WorkPart pass("gradient");                                          a part of it
//   base::WorkPart part("backward of part 2 of 7", {.total = 4096, .unit = "rows"});
//   part.Advance(128);                                                        a relaxed addition, cheap in a hot loop
//
//   work.Describe()   "step 4 for 35 s: gradient, backward of part 2 of 7, 128 of 4096 rows"
//
// The terminal (app/terminal/work_lines.h), `ingot status` (app/cluster/status/role_waits.h), and the run's page show
// this description. For waits, see base/waits.h. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::base {

class WorkPart;

class Work {
 public:
  // `clock` must outlive this object.
  explicit Work(const Clock& clock = Clock::Real()) : clock_(clock) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Returns this process's work. The object is never destroyed.
  static Work& OfProcess();

  // Describes the current work and all its open parts in one line. Empty = no work. If several threads are working,
  // describes the work that started first.
  std::string Describe() const;
  // Returns the time since the work began; 0 = no work.
  std::chrono::nanoseconds Lasts() const;

 private:
  friend class WorkPart;
  struct Open {
    const WorkPart* part;
    std::thread::id thread;
    std::chrono::nanoseconds since;
    std::string what;
  };

  const Clock& clock_;
  mutable Mutex mu_;
  std::vector<Open> open_ ABSL_GUARDED_BY(mu_);  // in order of start
};

// The size of a part, for reporting progress.
struct WorkAmount {
  int64_t done = 0;
  int64_t total = 0;  // 0 = not counted
  const char* unit = "";
};

// A part of the process's work, from construction to destruction. If this thread has no other open part, it is the work
// itself.
class WorkPart {
 public:
  // `what` is a few words that are safe to print. `work` must outlive this object.
  explicit WorkPart(std::string what, WorkAmount amount = {}, Work& work = Work::OfProcess());
  ~WorkPart();
  WorkPart(const WorkPart&) = delete;
  WorkPart& operator=(const WorkPart&) = delete;

  // Called by one thread at a time.
  void Advance(int64_t more) { done_.fetch_add(more, std::memory_order_relaxed); }
  int64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  friend class Work;

  Work& work_;
  std::atomic<int64_t> done_;
  const int64_t total_;
  const char* const unit_;
};

}  // namespace ingot::base
