// Displays progress on stderr. A line appears once a command has run for two seconds, and only on a terminal. The line
// is cleared before the command prints.
//
//   Progress   the current step of a job, with a bar if the steps are counted
//   Underway   a job with a single step, such as file system or torch operations
//   Between    a job with a single step that prints lines; the progress is shown between them
//
// All of them show the seconds since they were created. Each draws its line on its own thread, so the job may block.
// Threads must not share one.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

class Progress {
 public:
  // `out` is not owned. `terminal`: 1 = draw, 0 = do not draw, -1 = draw only if `out` is a terminal that can replace
  // lines (screen.h). REQUIRES: `clock` outlives this object.
  explicit Progress(std::string name, std::FILE* out = stderr, const base::Clock& clock = base::Clock::Real(),
                    int terminal = -1);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows that the job is doing `what` and has completed `done` of `total` steps; total 0 = unknown. Cheap, because it
  // draws at most ten times a second. The line remains, and its seconds keep counting, until the next Show or Clear.
  void Show(const std::string& what, int64_t done = 0, int64_t total = 0) ABSL_LOCKS_EXCLUDED(mu_);
  // Clears the line so that the caller can print.
  void Clear() ABSL_LOCKS_EXCLUDED(mu_);

  static constexpr std::chrono::seconds kAfter{2};
  static constexpr std::chrono::milliseconds kEvery{100};  // minimum time between redraws by Show
  static constexpr std::chrono::seconds kAgain{1};         // time between redraws during a long step

 private:
  void DrawAgain() ABSL_LOCKS_EXCLUDED(mu_);  // runs on thread_
  void Draw(std::chrono::nanoseconds now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  std::FILE* const out_;
  const base::Clock& clock_;
  const bool terminal_;
  const std::chrono::nanoseconds start_;

  base::Mutex mu_;
  base::CondVar ended_;
  std::optional<std::string> line_ ABSL_GUARDED_BY(mu_);  // current step; nullopt = nothing is shown
  std::chrono::nanoseconds drawn_ ABSL_GUARDED_BY(mu_);
  bool stands_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // only if terminal_
};

// Shows `what` until destroyed: "loading /models/m  12 s".
class Underway {
 public:
  explicit Underway(const std::string& what) : progress_("") { progress_.Show(what); }

 private:
  Progress progress_;
};

// Shows progress, such as "bench tree  12 s", between the lines that a job prints through this object.
class Between {
 public:
  explicit Between(std::string what) : what_(std::move(what)) { waits_.emplace(what_); }
  void Print(std::ostream& out, const std::string& line) {
    waits_.reset();
    out << line << std::endl;
    waits_.emplace(what_);
  }

 private:
  const std::string what_;
  std::optional<Underway> waits_;
};

// Returns whether stderr is a terminal and stdout is not.
bool OutputGoesElsewhere();

// Returns "report ━━━━━╌╌╌╌╌ 12/24 reading groups", without escape codes or seconds. Pure.
std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total);

}  // namespace ingot::app
