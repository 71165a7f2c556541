// Collects a runner's statistics and metrics since it started. Not thread safe: Runner holds its lock while calling it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "agents/episode_run.h"
#include "base/metrics.h"

namespace ingot::agents {

struct RunnerStats {
  int64_t running = 0;    // currently open episodes
  int64_t opened = 0;     // since the runner started, like all counts below
  int64_t finished = 0;   // ended with a reward
  int64_t forked = 0;     // trunks that ended at their fork
  int64_t snapshots = 0;  // currently held
  int64_t failed = 0;
  std::map<std::string, int64_t> failures;  // by cause (agents/episode_run.h)
  int64_t rejected = 0;                     // opening requests answered with RESOURCE_EXHAUSTED
  int64_t open_errors = 0;                  // opening requests answered with any other error
  int64_t unreported = 0;                   // episodes whose end the gateway did not accept
  double completion_s = 0;                  // sum over episodes whose agents ran
  double agent_cpu_s = 0;
  double reward_sum = 0;  // sum over finished episodes
  bool done = false;      // the gateway reported that the run is over
};

class RunnerTally {
 public:
  // `metrics` must outlive this object; null = none.
  explicit RunnerTally(base::Metrics* metrics);
  ~RunnerTally();

  void CountOpened();
  void CountRejected();   // for lack of capacity
  void CountOpenError();  // an opening request that failed for another reason
  // Counts an episode that was open. Logs the first failures for each cause.
  void CountEnded(const std::string& scaffold, const EpisodeReport& report);
  void CountUnreported() { ++stats_.unreported; }
  // Called when the run is over.
  void Finish() { stats_.done = true; }

  const RunnerStats& stats() const { return stats_; }

 private:
  struct Series;  // metrics, looked up once
  struct Rewards {
    double sum = 0;
    int64_t count = 0;
  };
  void CountReward(const std::string& scaffold, double reward);
  void CountFailure(const std::string& scaffold, const EpisodeReport& report);

  RunnerStats stats_;                       // except the number of snapshots
  std::map<std::string, Rewards> rewards_;  // rewards of finished episodes, by scaffold
  const std::unique_ptr<Series> series_;    // null = no metrics
};

}  // namespace ingot::agents
