#include "agents/runner_tally.h"

#include "agents/failure_causes.h"
#include "base/log.h"

namespace ingot::agents {

struct RunnerTally::Series {
  explicit Series(base::Metrics& metrics) : metrics(metrics) {}
  base::Metrics& metrics;
  base::Gauge& running = metrics.GetGauge("agents/running", "Open episodes");
  base::Counter& opened = metrics.GetCounter("agents/opened", "Episodes opened");
  base::Counter& rejected =
      metrics.GetCounter("agents/rejected", "Requests for episodes that were rejected for lack of capacity");
  base::Counter& open_errors =
      metrics.GetCounter("agents/open_errors", "Requests for episodes that failed for other reasons");
  base::Counter& cpu_s = metrics.GetCounter("agents/cpu_seconds", "CPU time of agents");

  void Ended(const std::string& scaffold, const EpisodeReport& report) {
    const std::string& cause = report.cause;
    const std::string state = !cause.empty() ? "failed" : report.fork != nullptr ? "forked" : "finished";
    metrics.GetCounter("agents/episodes", "Episodes ended", {{"scaffold", scaffold}, {"state", state}}).Increment();
    if (!cause.empty()) {
      metrics.GetCounter("agents/failures", "Failed episodes by cause", {{"cause", cause}, {"scaffold", scaffold}})
          .Increment();
    }
    if (!report.agent_ran) return;
    cpu_s.Increment(report.cpu_s);
    metrics.GetHistogram("agent/completion_seconds", "Wall time of agents", {{"scaffold", scaffold}})
        .Observe(report.completion_s);
  }

  void RewardMean(const std::string& scaffold, double mean) {
    metrics.GetGauge("agents/reward_mean", "Mean reward of finished episodes", {{"scaffold", scaffold}}).Set(mean);
  }
};

RunnerTally::RunnerTally(base::Metrics* metrics)
    : series_(metrics == nullptr ? nullptr : std::make_unique<Series>(*metrics)) {}

RunnerTally::~RunnerTally() = default;

void RunnerTally::CountOpened() {
  ++stats_.opened;
  ++stats_.running;
  if (series_ == nullptr) return;
  series_->opened.Increment();
  series_->running.Set(static_cast<double>(stats_.running));
}

void RunnerTally::CountRejected() {
  ++stats_.rejected;
  if (series_ != nullptr) series_->rejected.Increment();
}

void RunnerTally::CountOpenError() {
  ++stats_.open_errors;
  if (series_ != nullptr) series_->open_errors.Increment();
}

void RunnerTally::CountEnded(const std::string& scaffold, const EpisodeReport& report) {
  --stats_.running;
  if (report.agent_ran) {
    stats_.completion_s += report.completion_s;
    stats_.agent_cpu_s += report.cpu_s;
  }
  if (series_ != nullptr) {
    series_->running.Set(static_cast<double>(stats_.running));
    series_->Ended(scaffold, report);
  }
  if (report.fork != nullptr) {
    ++stats_.forked;
  } else if (report.cause.empty()) {
    ++stats_.finished;
    stats_.reward_sum += report.reward;
    if (report.has_reward) CountReward(scaffold, report.reward);
  } else {
    CountFailure(scaffold, report);
  }
}

void RunnerTally::CountReward(const std::string& scaffold, double reward) {
  Rewards& rewards = rewards_[scaffold];
  rewards.sum += reward;
  ++rewards.count;
  if (series_ != nullptr) series_->RewardMean(scaffold, rewards.sum / static_cast<double>(rewards.count));
}

void RunnerTally::CountFailure(const std::string& scaffold, const EpisodeReport& report) {
  ++stats_.failed;
  const int64_t count = ++stats_.failures[report.cause];
  // Logs the first ten failures per cause and then every hundredth, so a broken recipe does not fill the disk.
  if (report.cause != kStopped && (count <= 10 || count % 100 == 0)) {
    INGOT_LOG(warn, "an episode of '{}' failed ({}, {} so far): {}", scaffold, report.cause, count, report.detail);
  }
}

}  // namespace ingot::agents
