// Simulates the scheduler's window (policy.h) with agents that take the given durations, a trainer, and a delay before
// weights are live. Shows how the group order affects cost and batches before you pay for a run.
//
//   worker      takes the next sample of the oldest admitted group, or else a new group if a slot is free
//   group       finishes with its last sample; a share of the groups is then dropped (rewards all equal)
//   trainer     takes a batch as soon as one is ready; after step_seconds, its version exists
//   version     is live publish_seconds later, which releases its groups' slots
//
// Pure and deterministic, except that different C libraries may round logarithms differently.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

// Episode durations in seconds: a distribution, or the durations from a recorded run.
struct Durations {
  // constant:SECONDS, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA or pareto:LEAST,SHAPE. Ignored if
  // `recorded` is not empty.
  std::string distribution = "lognormal:60,1";
  // One list per recorded group. A simulated group draws one of the lists, and its samples draw from that list, which
  // keeps samples for the same task similar.
  std::vector<std::vector<double>> recorded;
};

struct SimulationOptions {
  static constexpr int kMaxWorkers = 10'000;
  static constexpr int64_t kMaxEpisodes = 20'000'000;  // maximum number of trained episodes per simulation

  WindowOptions window;
  int64_t group_size = 8;  // samples per group
  int64_t steps = 200;     // optimizer steps in the run
  int workers = 64;        // concurrent episodes, 1 to kMaxWorkers
  Durations durations;
  double task_sigma = 0;       // log-normal factor shared by all samples of a group; 0 = samples are independent
  double step_seconds = 30;    // trainer time per batch
  double publish_seconds = 1;  // from the end of a step until its version is live
  double drop_share = 0;       // fraction of groups dropped because their rewards are all equal, in [0, 1)
  uint64_t seed = 0;

  absl::Status Validate() const;
};

struct SimulationReport {
  double seconds = 0;            // simulated duration of the run
  int64_t groups = 0;            // trained
  double episodes_per_hour = 0;  // trained
  double worker_idle = 0;        // fraction of worker time without an episode
  double trainer_idle = 0;       // fraction of trainer time without a batch
  // Trained groups by age: the step that trained a group minus the version that was live when it was admitted.
  std::vector<int64_t> ages;
  double mean_age = 0;
  // The mean over batches of KL(the batch's episode durations || all submitted episode durations), in nats, over ten
  // bins with equal shares of the submitted episodes. An order that favors short episodes produces unrepresentative
  // batches.
  double batch_kl = 0;
  // Same as batch_kl, but for batches drawn at random from all trained episodes: the value expected by chance for
  // batches of this size.
  double noise_kl = 0;
  // batch_kl over the first tenth of the batches (at least one), where an order's bias shows first.
  double early_kl = 0;
  // Fractions of the workers' busy time spent on dropped groups, and on episodes that no batch had used when the run
  // ended.
  double dropped_work = 0, unused_work = 0;
};

// Returns INVALID_ARGUMENT if an option is out of range or the distribution cannot be parsed.
absl::StatusOr<SimulationReport> Simulate(const SimulationOptions& options);

}  // namespace ingot::scheduler
