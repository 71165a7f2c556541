// The scheduler's gauges and counters for Prometheus. If Metrics is null, calls have no effect.
#pragma once

#include <string>

#include "base/metrics.h"
#include "proto/scheduler.pb.h"

namespace ingot::scheduler {

class SchedulerMetrics {
 public:
  explicit SchedulerMetrics(base::Metrics* metrics) : metrics_(metrics) {}

  void SetWindow(const v1::FeedStats& stats, int64_t pending, int64_t live_version) {
    Set("ingot_scheduler_groups_unreleased", "Groups admitted and not released", stats.admitted_unreleased());
    Set("ingot_scheduler_groups_budget", "B: maximum number of groups admitted and not released", stats.budget());
    Set("ingot_scheduler_groups_pending", "Groups chosen and waiting for their batch", pending);
    Set("ingot_scheduler_groups_finished_outside_window", "Finished groups outside the window",
        stats.finished_outside_window());
    Set("ingot_scheduler_groups_grading", "Complete groups waiting for their reward", stats.grading());
    Set("ingot_scheduler_head", "Oldest group that is not terminal", stats.head());
    Set("ingot_scheduler_episodes_running", "Episodes that were given to agents and have not ended",
        stats.running_episodes());
    Set("ingot_scheduler_live_version", "Newest version live on every engine", live_version);
  }
  // `event` is admitted, dropped, or failed.
  void CountGroup(const std::string& event) {
    Count("ingot_scheduler_groups_total", "Groups by event", "event", event, 1);
  }
  void CountBatch(int64_t groups) {
    Count("ingot_scheduler_groups_total", "Groups by event", "event", "trained", groups);
  }
  void CountRejection(const std::string& cause) {
    Count("ingot_scheduler_rejected_total", "Admissions rejected, by cause", "cause", cause, 1);
  }
  void CountFailure(const std::string& cause) {
    Count("ingot_scheduler_failures_total", "Episodes that failed, by cause", "cause", cause, 1);
  }
  void CountUngraded(int64_t episodes) {
    if (metrics_ == nullptr) return;
    metrics_->GetCounter("ingot_scheduler_episodes_ungraded_total", "Finished episodes that no reward term could score")
        .Increment(static_cast<double>(episodes));
  }
  void CountFailedTerm(const std::string& term) {
    Count("ingot_scheduler_failed_terms_total",
          "Groups that failed because a reward term could score none of their episodes", "term", term, 1);
  }
  void CountEpisode(v1::EpisodeState state) {
    Count("ingot_scheduler_episodes_total", "Episodes ended, by state", "state", v1::EpisodeState_Name(state), 1);
  }

 private:
  void Set(const char* name, const char* help, int64_t value) {
    if (metrics_ != nullptr) metrics_->GetGauge(name, help).Set(static_cast<double>(value));
  }
  void Count(const char* name, const char* help, const char* label, const std::string& value, int64_t by) {
    if (metrics_ != nullptr) metrics_->GetCounter(name, help, {{label, value}}).Increment(static_cast<double>(by));
  }

  base::Metrics* const metrics_;
};

}  // namespace ingot::scheduler
