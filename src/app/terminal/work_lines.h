// Prints terminal lines about long-running work of this process (base/work.h). Without them, the last line during a
// long step would still be about an earlier wait.
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
  static constexpr std::chrono::seconds kEvery{10};  // interval between lines, and delay of the first line
  static constexpr std::chrono::milliseconds kPause{500};

  // The arguments must outlive it.
  explicit WorkLines(StepLine& line, const base::Work& work = base::Work::OfProcess(),
                     const base::Clock& clock = base::Clock::Real())
      : line_(line), work_(work), clock_(clock) {}
  ~WorkLines();
  WorkLines(const WorkLines&) = delete;
  WorkLines& operator=(const WorkLines&) = delete;

  // Calls Poll every kPause on its own thread, until destroyed. Call at most once. Do not also call Poll.
  void Start();

  // Prints a line if one is due.
  void Poll();

 private:
  StepLine& line_;
  const base::Work& work_;
  const base::Clock& clock_;
  std::optional<std::chrono::nanoseconds> printed_;  // used by the thread that calls Poll
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ingot::app
