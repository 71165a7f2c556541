#include "scheduler/service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/grpc_status.h"
#include "proto/scheduler.grpc.pb.h"

namespace ingot::scheduler {
namespace {

using v1::ToGrpc;

// Maximum time that NextBatch continues after its caller disconnected.
constexpr std::chrono::milliseconds kSlice(200);

class SchedulerService final : public v1::Scheduler::Service {
 public:
  SchedulerService(Client& scheduler, const base::Clock& clock) : scheduler_(scheduler), clock_(clock) {}

  grpc::Status Admit(grpc::ServerContext*, const v1::AdmitRequest* request, v1::AdmitResponse* response) override {
    auto ticket = scheduler_.Admit(*request);
    if (!ticket.ok()) return ToGrpc(ticket.status());
    *response->mutable_ticket() = *std::move(ticket);
    return grpc::Status::OK;
  }

  grpc::Status ReportEpisodeEnd(grpc::ServerContext*, const v1::ReportEpisodeEndRequest* request,
                                v1::ReportEpisodeEndResponse*) override {
    return ToGrpc(scheduler_.ReportEpisodeEnd(*request));
  }

  grpc::Status Reconcile(grpc::ServerContext*, const v1::ReconcileRequest* request,
                         v1::ReconcileResponse* response) override {
    return Answer(scheduler_.Reconcile(*request), response);
  }

  grpc::Status NextBatch(grpc::ServerContext* context, const v1::NextBatchRequest* request,
                         v1::NextBatchResponse* response) override {
    const auto end = clock_.Now() + std::chrono::milliseconds(std::clamp<int64_t>(request->wait_ms(), 0, 3'600'000));
    v1::NextBatchRequest slice = *request;
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock_.Now());
      slice.set_wait_ms(std::clamp(left, std::chrono::milliseconds(0), kSlice).count());
      auto batch = scheduler_.NextBatch(slice);
      if (batch.ok()) {
        *response = *std::move(batch);
        return grpc::Status::OK;
      }
      if (!absl::IsDeadlineExceeded(batch.status()) || left <= kSlice) return ToGrpc(batch.status());
      if (context->IsCancelled()) return grpc::Status(grpc::StatusCode::CANCELLED, "the caller disconnected");
    }
  }

  grpc::Status MarkVersionLive(grpc::ServerContext*, const v1::VersionLiveRequest* request,
                               v1::VersionLiveResponse*) override {
    return ToGrpc(scheduler_.MarkVersionLive(request->version()));
  }

  grpc::Status MarkCheckpoint(grpc::ServerContext*, const v1::CheckpointRequest* request,
                              v1::CheckpointResponse*) override {
    return ToGrpc(scheduler_.MarkCheckpoint(*request));
  }

  grpc::Status StartEval(grpc::ServerContext*, const v1::StartEvalRequest* request,
                         v1::StartEvalResponse* response) override {
    return Answer(scheduler_.StartEval(*request), response);
  }

  grpc::Status EvalStatus(grpc::ServerContext*, const v1::EvalStatusRequest* request,
                          v1::EvalStatusResponse* response) override {
    return Answer(scheduler_.EvalStatus(request->version()), response);
  }

  grpc::Status Status(grpc::ServerContext*, const v1::SchedulerStatusRequest*,
                      v1::SchedulerStatusResponse* response) override {
    return Answer(scheduler_.Status(), response);
  }

 private:
  template <typename T>
  static grpc::Status Answer(absl::StatusOr<T> result, T* response) {
    if (!result.ok()) return ToGrpc(result.status());
    *response = *std::move(result);
    return grpc::Status::OK;
  }

  Client& scheduler_;
  const base::Clock& clock_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSchedulerService(Client& scheduler, const base::Clock& clock) {
  return std::make_unique<SchedulerService>(scheduler, clock);
}

}  // namespace ingot::scheduler
