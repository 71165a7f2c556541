// Compares the time of a step's passes with their bound (pass/step_bound.h). Works on rank 0 only. Its rates are those
// of this machine; they are measured once, and again while a step beats its bound, which shows that other processes
// used the processors during the measurement. A step that still beats it proves that the machine is faster than all
// measurements: its own rates count from then on, and no step is faster than its bound.
#pragma once

#include <optional>

#include "model/parameters.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/parallel/ranks.h"
#include "trainer/pass/step_bound.h"
#include "trainer/policy/policy.h"
#include "trainer/step_tally.h"

namespace ingot::trainer {

class BoundMeter {
 public:
  // All outlive this; `ranks` null = one rank.
  BoundMeter(const TrainerOptions& options, const Policy& policy, const Ranks* ranks)
      : options_(options), policy_(policy), ranks_(ranks) {}

  // Reports tree/speedup* and perf/*bound* of a step, on rank 0. Call it when the step's gradients are freed, with the
  // step's number of compute threads. A failure is logged and leaves the metrics out.
  void Report(const StepTally& tally, StepMetrics& metrics);

 private:
  struct Rates {
    StepRates best;
    int threads = 0, times = 0;  // compute threads of the measurement; number of measurements with them
  };

  bool Known() const;  // with the current number of threads
  void Measure();
  // Measures the rates if they are not known or too slow for this step; takes the step's own rates if they still are.
  void MeasureFor(const StepTally& tally);
  double BoundOf(const StepWork& work, const StepTally& tally) const;

  const TrainerOptions& options_;
  const Policy& policy_;
  const Ranks* const ranks_;
  std::optional<Rates> rates_;
};

}  // namespace ingot::trainer
