// Chooses a sample for a client: from an evaluation, from an admitted group, or from a new group, which is journaled
// first. Clients without a group get evaluation samples first. Not thread safe. Admit blocks for at most one journal
// write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/journal/journaled_run.h"
#include "scheduler/options.h"
#include "scheduler/scheduler_metrics.h"

namespace ingot::scheduler {

class Admissions {
 public:
  Admissions(const SchedulerOptions& options, SchedulerMetrics metrics)
      : options_(options), metrics_(metrics), last_batch_fed_(options.total_steps == 0) {}

  // Returns INVALID_ARGUMENT if the request's fields contradict each other.
  static absl::Status Validate(const v1::AdmitRequest& request);
  // Hands out a sample. proto/scheduler.proto documents the errors. REQUIRES: Validate(request) is OK.
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request, JournaledRun& run);
  // Called when the trainer gets this step's batch.
  void BatchFed(int64_t step) { last_batch_fed_ = step + 1 == options_.total_steps; }

 private:
  absl::StatusOr<v1::Ticket> AdmitTraining(const v1::AdmitRequest& request, JournaledRun& run);
  // Hands out a sample from group `sample_of` for an episode that starts from a snapshot.
  absl::StatusOr<v1::Ticket> AdmitSampleOf(const v1::AdmitRequest& request, TrainGroups& groups) const;
  // Hands out a sample from the group named in the request. Returns nullopt if no group has that name yet.
  absl::StatusOr<std::optional<v1::Ticket>> AdmitNamed(const v1::AdmitRequest& request, TrainGroups& groups) const;
  absl::StatusOr<v1::Ticket> AdmitNewGroup(const v1::AdmitRequest& request, JournaledRun& run);
  // Returns RESOURCE_EXHAUSTED, or FAILED_PRECONDITION if there will be no more episodes. REQUIRES:
  // run.all_batches_made().
  absl::Status RejectAtEnd(const JournaledRun& run);
  absl::Status Reject(const std::string& cause, const std::string& text);

  const SchedulerOptions options_;
  SchedulerMetrics metrics_;
  bool last_batch_fed_;  // the trainer got the last batch since this process started
};

}  // namespace ingot::scheduler
