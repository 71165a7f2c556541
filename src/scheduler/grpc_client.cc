#include "scheduler/grpc_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "proto/grpc_call.h"
#include "proto/scheduler.grpc.pb.h"

namespace ingot::scheduler {
namespace {

class GrpcClient final : public Client {
 public:
  GrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline)
      : stubs_(std::move(channel)), deadline_(deadline) {}

  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override {
    // No retry: an Admit whose response was lost leaves its sample running until its group's deadline.
    auto response =
        v1::CallUnary(stubs_, &v1::Scheduler::Stub::Admit, request, {.timeout = deadline_, .repeat = false});
    if (!response.ok()) return response.status();
    return std::move(*response->mutable_ticket());
  }
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) override {
    return Call<v1::ReportEpisodeEndResponse>(&v1::Scheduler::Stub::ReportEpisodeEnd, request).status();
  }
  absl::StatusOr<v1::ReconcileResponse> Reconcile(const v1::ReconcileRequest& request) override {
    return Call<v1::ReconcileResponse>(&v1::Scheduler::Stub::Reconcile, request);
  }
  absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest& request) override {
    const std::chrono::milliseconds wait(std::clamp<int64_t>(request.wait_ms(), 0, 3'600'000));
    return Call<v1::NextBatchResponse>(&v1::Scheduler::Stub::NextBatch, request, wait);
  }
  absl::Status MarkVersionLive(int64_t version) override {
    v1::VersionLiveRequest request;
    request.set_version(version);
    return Call<v1::VersionLiveResponse>(&v1::Scheduler::Stub::MarkVersionLive, request).status();
  }
  absl::Status MarkCheckpoint(const v1::CheckpointRequest& request) override {
    return Call<v1::CheckpointResponse>(&v1::Scheduler::Stub::MarkCheckpoint, request).status();
  }
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) override {
    return Call<v1::StartEvalResponse>(&v1::Scheduler::Stub::StartEval, request);
  }
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) override {
    v1::EvalStatusRequest request;
    request.set_version(version);
    return Call<v1::EvalStatusResponse>(&v1::Scheduler::Stub::EvalStatus, request);
  }
  absl::StatusOr<v1::SchedulerStatusResponse> Status() override {
    return v1::CallUnary(stubs_, &v1::Scheduler::Stub::Status, v1::SchedulerStatusRequest(),
                         {.timeout = deadline_, .wait = false, .repeat = false});
  }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (v1::Scheduler::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                            Response*),
                                const Request& request, std::chrono::milliseconds wait = {}) {
    return v1::CallUnary(stubs_, method, request, {.timeout = deadline_ + wait});
  }

  const v1::Stubs<v1::Scheduler> stubs_;
  const std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline) {
  return std::make_unique<GrpcClient>(std::move(channel), deadline);
}

}  // namespace ingot::scheduler
