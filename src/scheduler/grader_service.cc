#include "scheduler/grader_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>

#include "proto/grpc_status.h"
#include "proto/reward.grpc.pb.h"

namespace ingot::scheduler {
namespace {

class GraderService final : public v1::Rewards::Service {
 public:
  explicit GraderService(Grader& grader) : grader_(grader) {}

  grpc::Status Grade(grpc::ServerContext*, const v1::GradeRequest* request, v1::GradeResponse* response) override {
    ++judging_;
    auto answer = grader_.Grade(*request);
    --judging_;
    if (!answer.ok()) return v1::ToGrpc(answer.status());
    ++judged_;
    *response = *std::move(answer);
    return grpc::Status::OK;
  }

  grpc::Status Status(grpc::ServerContext*, const v1::RewardsStatusRequest*,
                      v1::RewardsStatusResponse* response) override {
    response->set_judged(judged_);
    response->set_judging(judging_);
    return grpc::Status::OK;
  }

 private:
  Grader& grader_;
  std::atomic<int64_t> judged_ = 0, judging_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGraderService(Grader& grader) { return std::make_unique<GraderService>(grader); }

}  // namespace ingot::scheduler
