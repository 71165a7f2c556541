// The scheduler's interface, in process or over gRPC. proto/scheduler.proto documents each call. Thread safe. NextBatch
// blocks for up to wait_ms, and every other call until its journal writes are done.
#pragma once

#include "base/status.h"
#include "proto/scheduler.pb.h"

namespace ingot::scheduler {

class Client {
 public:
  virtual ~Client() = default;
  virtual absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) = 0;
  virtual absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) = 0;
  virtual absl::StatusOr<v1::ReconcileResponse> Reconcile(const v1::ReconcileRequest& request) = 0;
  virtual absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest& request) = 0;
  virtual absl::Status MarkVersionLive(int64_t version) = 0;
  virtual absl::Status MarkCheckpoint(const v1::CheckpointRequest& request) = 0;
  virtual absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) = 0;
  virtual absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) = 0;
  virtual absl::StatusOr<v1::SchedulerStatusResponse> Status() = 0;
};

}  // namespace ingot::scheduler
