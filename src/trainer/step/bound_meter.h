// Compares the time of a step's passes with their bound (pass/step_bound.h). Works only on rank 0. It measures this
// machine's rates once, and again if a step beats its bound, because other processes must then have used the CPUs
// during the measurement. If a step still beats the bound, the machine is faster than all measurements, and the step's
// own rates are used from then on. So no step is faster than its bound.
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
  // The arguments must outlive this object. Null `ranks` = one rank.
  BoundMeter(const TrainerOptions& options, const Policy& policy, const Ranks* ranks)
      : options_(options), policy_(policy), ranks_(ranks) {}

  // On rank 0, reports a step's tree/speedup* and perf/*bound* metrics. Call it after the step's gradients are freed,
  // with the step's number of compute threads. On failure, logs the error and omits the metrics.
  void Report(const StepTally& tally, StepMetrics& metrics);

 private:
  struct Rates {
    StepRates best;
    int threads = 0, times = 0;  // compute threads in the measurement, and number of measurements with that count
  };

  bool Known() const;  // rates for the current number of threads are known
  void Measure();
  // Measures the rates if they are unknown or too slow for this step. If they are still too slow, uses the step's
  // rates.
  void MeasureFor(const StepTally& tally);
  double BoundOf(const StepWork& work, const StepTally& tally) const;

  const TrainerOptions& options_;
  const Policy& policy_;
  const Ranks* const ranks_;
  std::optional<Rates> rates_;
};

}  // namespace ingot::trainer
