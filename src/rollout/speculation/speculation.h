// Decides how many drafts a step verifies. Both classes are pure: they use no clock or I/O, and the same calls give the
// same results. Not thread safe.
//
// A step with B requests and r rows samples about B + sum(survival) tokens in t(r) seconds. The survival of a draft is
// the probability that it and all drafts before it are accepted. Drafts are added in descending order of survival as
// long as tokens per second increase. Each draft costs a full forward row, so a large batch on a small model verifies
// none (arXiv 2510.26475, section 3: speculation can be slower at large batches).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::rollout {

// Estimates a step's duration in seconds from its number of rows: t(rows) = a + b * rows with a, b >= 0. Uses a
// least-squares fit over recent steps, in which older steps count less. The slope stays close to the one that
// kPriorFixedRows implies until step sizes have varied enough.
class StepCost {
 public:
  // Adds a measured step. Ignores seconds <= 0. A step that takes much longer than expected counts as kMaxSlow times
  // the expected time, because other programs can slow down individual steps.
  void Add(double rows, double seconds);

  // Returns t(rows) up to a constant factor. Before the first Add, returns the prior.
  double Of(double rows) const;

  static constexpr double kPriorFixedRows = 8;  // prior a = 8 b: a step's fixed part costs as much as 8 rows

 private:
  static constexpr double kForgetting = 0.995;  // weight of a step relative to the step after it
  static constexpr double kPriorWeight = 2;     // in steps
  static constexpr double kMaxSlow = 2;

  struct Line {
    double fixed = 0, per_row = 0;
  };
  Line Fit() const;

  // Weighted sums over the steps.
  double weight_ = 0, rows_ = 0, seconds_ = 0, rows2_ = 0, rows_seconds_ = 0;
};

class SpeculationPolicy {
 public:
  // A request that samples in the step.
  struct Survival {
    int32_t drafts = 0;     // proposed ids
    double acceptance = 0;  // Draft::acceptance, 0 to 1
  };

  // `min_gain` is the smallest relative gain in tokens per second for which drafts are verified; -1 = verify all.
  explicit SpeculationPolicy(double min_gain) : min_gain_(min_gain) {}

  // Returns the number of drafts to verify for each request, at most `free_rows` in total. `rows` is the number of the
  // step's other rows. If survival is equal, earlier requests take precedence. Occasionally returns a different plan to
  // measure its cost: no drafts, or few drafts where the gain is too small.
  std::vector<int32_t> Plan(std::span<const Survival> requests, int64_t rows, int64_t free_rows);

  // Adds a finished step without prompt pieces.
  void Measured(int64_t rows, double seconds) { cost_.Add(static_cast<double>(rows), seconds); }

 private:
  static constexpr int32_t kProbeEvery = 64;

  std::vector<int32_t> Best(std::span<const Survival> requests, int64_t rows, int64_t free_rows) const;

  const double min_gain_;
  StepCost cost_;
  int32_t since_none_ = 0, since_some_ = 0;  // steps since a plan without drafts, and since one with drafts
};

}  // namespace ingot::rollout
