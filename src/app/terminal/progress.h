// The progress of a command on stderr: a line that appears once the command has taken two seconds, only on a terminal.
// The line is cleared before the command prints.
//
//   Progress   the step that a job has come to, with a bar where the steps are counted
//   Underway   a job of one step, in the file system or torch
//   Between    the same between the lines that a job prints
//
// All show the seconds since they were made. Each draws its line on its own thread, so the job may block. They are not
// for several threads of the job.
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
  // `out` is borrowed; `clock` outlives it. `terminal`: -1 = whether `out` is one that replaces lines (screen.h).
  explicit Progress(std::string name, std::FILE* out = stderr, const base::Clock& clock = base::Clock::Real(),
                    int terminal = -1);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The job does `what`, and has finished `done` of `total` steps; total 0 = not known. Cheap: draws at most ten times
  // a second. The line stays, with its seconds, until the next call of Show or Clear.
  void Show(const std::string& what, int64_t done = 0, int64_t total = 0) ABSL_LOCKS_EXCLUDED(mu_);
  // Clears the line; the caller may print.
  void Clear() ABSL_LOCKS_EXCLUDED(mu_);

  static constexpr std::chrono::seconds kAfter{2};
  static constexpr std::chrono::milliseconds kEvery{100};  // of the caller's steps
  static constexpr std::chrono::seconds kAgain{1};         // of a long step

 private:
  void DrawAgain() ABSL_LOCKS_EXCLUDED(mu_);  // the thread
  void Draw(std::chrono::nanoseconds now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  std::FILE* const out_;
  const base::Clock& clock_;
  const bool terminal_;
  const std::chrono::nanoseconds start_;

  base::Mutex mu_;
  base::CondVar ended_;
  std::optional<std::string> line_ ABSL_GUARDED_BY(mu_);  // the step; nullopt = nothing is shown
  std::chrono::nanoseconds drawn_ ABSL_GUARDED_BY(mu_);
  bool stands_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // of a terminal
};

// Shows `what` from its construction to its end: "loading /models/m  12 s".
class Underway {
 public:
  explicit Underway(const std::string& what) : progress_("") { progress_.Show(what); }

 private:
  Progress progress_;
};

// A job that prints its lines through this: "bench tree  12 s" shows between lines.
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

// Whether only stderr writes to its terminal: stdout goes elsewhere.
bool OutputGoesElsewhere();

// "report ━━━━━╌╌╌╌╌ 12/24 reading groups", without escape codes and seconds. Pure.
std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total);

}  // namespace ingot::app
