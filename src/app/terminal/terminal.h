// Prints a run's lines on the terminal: one per step, in color if the terminal supports it (screen.h), otherwise plain.
// Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/terminal/screen.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

// A metric that shows whether a run is learning, with a short name.
struct Figure {
  std::string name;    // "reward"
  std::string metric;  // docs/reference/metrics.md

  bool operator==(const Figure&) const = default;
};
using Figures = std::vector<Figure>;
inline const Figures kReward = {{"reward", "reward/mean"}};

class StepLine {
 public:
  // `out` is not owned. `clock` must outlive this object. `figures` are printed for each step.
  StepLine(std::FILE* out, std::string run_name, int64_t total_steps, const base::Clock& clock = base::Clock::Real(),
           Figures figures = kReward);
  ~StepLine();  // the last progress line stays on the terminal
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;

  // Prints a finished step with its metrics (docs/reference/metrics.md), `elapsed_s` after the run's start.
  void Step(int64_t step, const std::map<std::string, double>& metrics, double elapsed_s) ABSL_LOCKS_EXCLUDED(mu_);

  // Prints one line that scrolls, such as the start of a stage or the end of an evaluation. Escapes untrusted text
  // (base/printable.h), including line ends.
  void Note(const std::string& text) ABSL_LOCKS_EXCLUDED(mu_);

  // Prints the progress of a stage. If the terminal can replace lines, this replaces the previous progress, and the
  // next line replaces it. Elsewhere, it is a separate line, at most one per kPlainProgressEvery.
  void Progress(const std::string& text) ABSL_LOCKS_EXCLUDED(mu_);
  static constexpr std::chrono::seconds kPlainProgressEvery{30};

  // Same as Progress, but for the current work, and without a limit on lines. Calls `text` with the lock held, so its
  // result is current when it is printed. Prints nothing if the result is empty.
  void Working(const std::function<std::string()>& text) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Print(const char* colour, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Replace(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::FILE* const out_;
  const std::string run_name_;
  const int64_t total_steps_;
  const Figures figures_;
  const Screen screen_;
  const base::Clock& clock_;
  base::Mutex mu_;
  double first_elapsed_s_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t first_step_ ABSL_GUARDED_BY(mu_) = 0;
  bool progress_stands_ ABSL_GUARDED_BY(mu_) = false;  // true = the cursor's line shows progress
  // Time of the last printed progress line, or of the first omitted one.
  std::optional<std::chrono::nanoseconds> plain_progress_at_ ABSL_GUARDED_BY(mu_);
};

// Returns a supervised stage's progress: "supervised  120/480  nll 1.2345  12.3 steps/s  remaining 30s". `done` is the
// number of completed steps in the stage, and `figure` is the stage's loss or accuracy. The last `timed` completed
// steps took `seconds`.
std::string FormatStage(const std::string& stage, int64_t done, int64_t total, const std::string& figure, int64_t timed,
                        double seconds);

// Returns StepLine's line for a step without escape codes, for plain output and tests. "-" = unknown, such as the
// engine's idle share if it has restarted since the previous step.
std::string FormatStep(const std::string& run_name, int64_t step, int64_t total_steps,
                       const std::map<std::string, double>& metrics, double eta_s, const Figures& figures = kReward);

// Returns `value` in the format `number`, or "-" if it is not finite, which means that nothing was measured.
std::string FormatNumber(const std::string& number, double value);

// Formats one metric with the fmt string `number` ("{:.1f}"), or returns "-" if it is missing.
std::string FormatMetric(const std::string& number, const std::map<std::string, double>& metrics,
                         const std::string& name);

// Returns the speedup that a step's passes gained from merging, its upper bound, and their ratio: "tree 3.1x of 3.9x
// (79%)".
std::string FormatSpeedup(const std::map<std::string, double>& metrics);

// Returns a bar chart of `values` in [0, 1], drawn with Unicode blocks, for the summary.
std::string Sparkline(const std::vector<double>& values);

}  // namespace ingot::app
