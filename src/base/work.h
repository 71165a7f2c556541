// What a process computes, for people who wait for it: the work that runs, the part of it, and how far that part is.
//
//   base::WorkPart step("step 4");                                            the work
//   base::WorkPart pass("gradient");                                          a part of it
//   base::WorkPart part("backward of part 2 of 7", {.total = 4096, .unit = "rows"});
//   part.Advance(128);                                                        a relaxed addition: free in a hot loop
//
//   work.Describe()   "step 4 for 35 s: gradient, backward of part 2 of 7, 128 of 4096 rows"
//
// The terminal (app/terminal/work_lines.h), `ingot status` (app/cluster/status/role_waits.h) and the run's page read
// it. What a process waits for is in base/waits.h. Thread safe.
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
  // `clock` outlives it.
  explicit Work(const Clock& clock = Clock::Real()) : clock_(clock) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The work of this process; never destroyed.
  static Work& OfProcess();

  // What runs, with all parts that are open, in one line. Empty = nothing. If several threads work, the thread that
  // began first.
  std::string Describe() const;
  // The time since the work began; 0 = nothing runs.
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
  std::vector<Open> open_ ABSL_GUARDED_BY(mu_);  // in the order of their begin
};

// How much a part has to do.
struct WorkAmount {
  int64_t done = 0;
  int64_t total = 0;  // 0 = not counted
  const char* unit = "";
};

// A part of the process's work, or the work itself if no other part of this thread is open; until the destructor.
class WorkPart {
 public:
  // `what`: a few words, safe for a terminal. `work` outlives it.
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
