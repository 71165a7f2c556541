// Which sample a client gets: of an evaluation, of an admitted group, or of a new group, which is journalled first.
// Evaluations go first for clients that name no group. Not thread safe. Admit blocks for at most one journal write.
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

  // INVALID_ARGUMENT: fields of the request contradict each other.
  static absl::Status Validate(const v1::AdmitRequest& request);
  // Hands out a sample. Errors: proto/scheduler.proto. REQUIRES: Validate(request) is OK.
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request, JournaledRun& run);
  // The trainer got the batch of this step.
  void BatchFed(int64_t step) { last_batch_fed_ = step + 1 == options_.total_steps; }

 private:
  absl::StatusOr<v1::Ticket> AdmitTraining(const v1::AdmitRequest& request, JournaledRun& run);
  // A sample of group `sample_of`, for an episode that starts from a snapshot.
  absl::StatusOr<v1::Ticket> AdmitSampleOf(const v1::AdmitRequest& request, TrainGroups& groups) const;
  // A sample of the group that the request names; nullopt = no group has that name yet.
  absl::StatusOr<std::optional<v1::Ticket>> AdmitNamed(const v1::AdmitRequest& request, TrainGroups& groups) const;
  absl::StatusOr<v1::Ticket> AdmitNewGroup(const v1::AdmitRequest& request, JournaledRun& run);
  // RESOURCE_EXHAUSTED, or FAILED_PRECONDITION if no episode is left to come. REQUIRES: run.all_batches_made().
  absl::Status RejectAtEnd(const JournaledRun& run);
  absl::Status Reject(const std::string& cause, const std::string& text);

  const SchedulerOptions options_;
  SchedulerMetrics metrics_;
  bool last_batch_fed_;  // to the trainer, since this process's start
};

}  // namespace ingot::scheduler
