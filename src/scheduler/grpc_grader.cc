#include "scheduler/grpc_grader.h"

#include <grpcpp/client_context.h>

#include <set>
#include <utility>

#include "base/mutex.h"
#include "proto/grpc_status.h"
#include "proto/reward.grpc.pb.h"

namespace ingot::scheduler {
namespace {

class GrpcGrader final : public RemoteGrader {
 public:
  GrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline)
      : stubs_(std::move(channel)), deadline_(deadline) {}

  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    context.set_wait_for_ready(false);
    {
      base::MutexLock lock(mu_);
      if (stopped_) return Stopped();
      waiting_.insert(&context);
    }
    v1::GradeResponse response;
    const grpc::Status status = stubs_.Now()->Grade(&context, request, &response);
    base::MutexLock lock(mu_);
    waiting_.erase(&context);
    if (status.ok()) return response;
    return stopped_ ? Stopped() : v1::FromGrpc(status);
  }

  void Stop() override {
    base::MutexLock lock(mu_);
    stopped_ = true;
    for (grpc::ClientContext* context : waiting_) context->TryCancel();
  }

 private:
  static absl::Status Stopped() {
    return absl::UnavailableError("this process is shutting down: the reward stage is not called");
  }

  const v1::Stubs<v1::Rewards> stubs_;
  const std::chrono::milliseconds deadline_;
  base::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> waiting_ ABSL_GUARDED_BY(mu_);  // the requests in flight
};

}  // namespace

std::unique_ptr<RemoteGrader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline) {
  return std::make_unique<GrpcGrader>(std::move(channel), deadline);
}

}  // namespace ingot::scheduler
