// Simulates the scheduler's window (policy.h): agents that take the given durations, a trainer, and weights that go
// live later. It shows, before you pay for a run, what an order of groups costs and what it does to the batches.
//
//   worker      takes the next sample of the oldest admitted group; if there is none, a new group, if a slot is free
//   group       finishes with its last sample; a share of the groups is dropped then (rewards all equal)
//   trainer     takes a batch as soon as one is ready; after step_seconds its version exists
//   version     is live publish_seconds later, and releases the slots of its groups
//
// Pure and deterministic: equal options give an equal report. Another C library may round a logarithm differently.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

// The durations of episodes, in seconds: a distribution, or the durations of a recorded run.
struct Durations {
  // constant:SECONDS, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA or pareto:LEAST,SHAPE. Ignored if
  // `recorded` is not empty.
  std::string distribution = "lognormal:60,1";
  // One list for each group that was recorded. A simulated group draws one of the lists, and its samples draw from it:
  // samples of one task stay alike.
  std::vector<std::vector<double>> recorded;
};

struct SimulationOptions {
  static constexpr int kMaxWorkers = 10'000;
  static constexpr int64_t kMostEpisodes = 20'000'000;  // maximum of trained episodes per simulation

  WindowOptions window;
  int64_t group_size = 8;  // samples per group
  int64_t steps = 200;     // optimizer steps of the run
  int workers = 64;        // episodes that run at a time, 1 to kMaxWorkers
  Durations durations;
  double task_sigma = 0;       // log-normal factor that all samples of one group share; 0 = samples are independent
  double step_seconds = 30;    // of the trainer, per batch
  double publish_seconds = 1;  // from the end of a step to the moment when its version is live
  double drop_share = 0;       // fraction of groups dropped because their rewards are all equal, in [0, 1)
  uint64_t seed = 0;

  absl::Status Validate() const;
};

struct SimulationReport {
  double seconds = 0;            // of the run, simulated
  int64_t groups = 0;            // trained
  double episodes_per_hour = 0;  // trained
  double worker_idle = 0;        // share of the workers' time without an episode
  double trainer_idle = 0;       // share of the trainer's time without a batch
  // Trained groups by age: the step that trained a group, less the version that was live when it was admitted.
  std::vector<int64_t> ages;
  double mean_age = 0;
  // The mean over batches of KL(durations of the batch's episodes || durations of all submitted episodes), in nats,
  // over ten bins with equal shares of the submitted episodes. An order that favors short episodes makes batches that
  // do not represent the tasks.
  double batch_kl = 0;
  // The same for batches drawn at random from all trained episodes: the value that batches of this size have by chance.
  double noise_kl = 0;
  // batch_kl of the first tenth of the batches, at least one: where an order's preference shows first.
  double early_kl = 0;
  // Shares of the workers' busy time: spent on groups that were dropped, and on episodes that no batch had used when
  // the run ended.
  double dropped_work = 0, unused_work = 0;
};

// INVALID_ARGUMENT: an option is out of its range, or the distribution cannot be read.
absl::StatusOr<SimulationReport> Simulate(const SimulationOptions& options);

}  // namespace ingot::scheduler
