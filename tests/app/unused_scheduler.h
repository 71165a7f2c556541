// A scheduler client for tests to derive from: every method is unimplemented.
#pragma once

#include "scheduler/client.h"

namespace ingot::app {

class UnusedScheduler : public scheduler::Client {
 public:
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest&) override { return Unused(); }
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest&) override { return Unused(); }
  absl::StatusOr<v1::ReconcileResponse> Reconcile(const v1::ReconcileRequest&) override { return Unused(); }
  absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest&) override { return Unused(); }
  absl::Status MarkVersionLive(int64_t) override { return Unused(); }
  absl::Status MarkCheckpoint(const v1::CheckpointRequest&) override { return Unused(); }
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest&) override { return Unused(); }
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t) override { return Unused(); }
  absl::StatusOr<v1::SchedulerStatusResponse> Status() override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not asked for here"); }
};

}  // namespace ingot::app
