// Lines about what this process computes (base/work.h) while it takes long: without them, a step of minutes would leave
// the line about an earlier wait as the last one on the terminal.
#pragma once

#include <chrono>
#include <optional>
#include <thread>

#include "app/terminal/terminal.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/work.h"

namespace ingot::app {

class WorkLines {
 public:
  static constexpr std::chrono::seconds kEvery{10};  // between two lines, and from the work's begin to its first
  static constexpr std::chrono::milliseconds kPause{500};

  // The arguments outlive it.
  explicit WorkLines(StepLine& line, const base::Work& work = base::Work::OfProcess(),
                     const base::Clock& clock = base::Clock::Real())
      : line_(line), work_(work), clock_(clock) {}
  ~WorkLines();
  WorkLines(const WorkLines&) = delete;
  WorkLines& operator=(const WorkLines&) = delete;

  // Looks every kPause, on its own thread, until the destructor. Called at most once; do not call Look as well.
  void Start();

  // Prints the line if it is due.
  void Look();

 private:
  StepLine& line_;
  const base::Work& work_;
  const base::Clock& clock_;
  std::optional<std::chrono::nanoseconds> printed_;  // of the looking thread
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ingot::app
