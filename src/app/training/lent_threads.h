// Adds how many compute threads the trainer and the engines lent each other to a step's metrics.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "kernels/compute_share.h"

namespace ingot::app {

// Not thread safe.
class LentThreads {
 public:
  // Starts counting now. Null `compute` = no metrics.
  explicit LentThreads(std::shared_ptr<const kernels::ComputeMember> compute,
                       const base::Clock& clock = base::Clock::Real());

  // Adds perf/threads_lent_to_{trainer,rollout}: the mean number of borrowed threads that computed since the last call.
  void Add(std::map<std::string, double>& metrics);

 private:
  struct Totals {
    double seconds = 0, trainer = 0, rollout = 0;
  };
  Totals Now() const;

  const std::shared_ptr<const kernels::ComputeMember> compute_;
  const base::Clock& clock_;
  Totals before_;
};

}  // namespace ingot::app
