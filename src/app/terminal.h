// The lines a person watches: one per step, coloured on a terminal, plain elsewhere. Not thread safe.
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

  // A finished step with its metrics (names of DESIGN section 5), `elapsed_s` since the run's start.
  void Step(int64_t step, const std::map<std::string, double>& metrics, double elapsed_s);

  // A one-off line that scrolls (a phase began, an evaluation ended).
  void Note(const std::string& text);

 private:
  std::FILE* const out_;
  const std::string run_name_;
  const int64_t total_steps_;
  const bool tty_;
  double first_elapsed_s_ = -1;
  int64_t first_step_ = 0;
};

// What StepLine prints for a step, without escape codes: for plain output and tests. "-" stands for what is not known,
// as the engine's share of idle time is not when it was started again since the step before.
std::string FormatStep(const std::string& run_name, int64_t step, int64_t total_steps,
                       const std::map<std::string, double>& metrics, double eta_s);

// One metric, as `number` says how fmt writes it ("{:.1f}").
std::string FormatMetric(const std::string& number, const std::map<std::string, double>& metrics,
                         const std::string& name);

// What merging won in a step's passes, what it could have, and the share: "tree 3.1x of 3.9x (79%)".
std::string FormatSpeedup(const std::map<std::string, double>& metrics);

// A small bar chart of `values` over [0, 1] in unicode blocks, for the summary.
std::string Sparkline(const std::vector<double>& values);

}  // namespace ingot::app
