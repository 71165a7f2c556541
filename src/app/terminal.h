// The lines of a run on the terminal: one per step, coloured on a terminal, plain elsewhere. Not thread safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace ingot::app {

class StepLine {
 public:
  // `out` is borrowed.
  StepLine(std::FILE* out, std::string run_name, int64_t total_steps);

  // Prints a finished step with its metrics (docs/metrics.md), `elapsed_s` after the run's start.
  void Step(int64_t step, const std::map<std::string, double>& metrics, double elapsed_s);

  // Prints one line that scrolls, such as the start of a stage or the end of an evaluation. Text from outside in it is
  // escaped (base/printable.h), line ends too.
  void Note(const std::string& text);

 private:
  std::FILE* const out_;
  const std::string run_name_;
  const int64_t total_steps_;
  const bool tty_;
  double first_elapsed_s_ = -1;
  int64_t first_step_ = 0;
};

// StepLine's text for a step, without escape codes: for plain output and tests. "-" = not known, such as the engine's
// idle share if it restarted since the step before.
std::string FormatStep(const std::string& run_name, int64_t step, int64_t total_steps,
                       const std::map<std::string, double>& metrics, double eta_s);

// One metric in the fmt format `number` ("{:.1f}"), or "-".
std::string FormatMetric(const std::string& number, const std::map<std::string, double>& metrics,
                         const std::string& name);

// The gain of merging in a step's passes, its bound, and their ratio: "tree 3.1x of 3.9x (79%)".
std::string FormatSpeedup(const std::map<std::string, double>& metrics);

// A bar chart of `values` over [0, 1] in unicode blocks, for the summary.
std::string Sparkline(const std::vector<double>& values);

}  // namespace ingot::app
