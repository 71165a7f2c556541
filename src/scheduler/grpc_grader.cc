#include "scheduler/grpc_grader.h"

#include <utility>

#include "proto/grpc_call.h"
#include "proto/reward.grpc.pb.h"

namespace ingot::scheduler {
namespace {

class GrpcGrader final : public Grader {
 public:
  GrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline)
      : stubs_(std::move(channel)), deadline_(deadline) {}

  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override {
    return v1::CallUnary(stubs_, &v1::Rewards::Stub::Grade, request,
                         {.timeout = deadline_, .wait = false, .repeat = false});
  }

 private:
  const v1::Stubs<v1::Rewards> stubs_;
  const std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<Grader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline) {
  return std::make_unique<GrpcGrader>(std::move(channel), deadline);
}

}  // namespace ingot::scheduler
