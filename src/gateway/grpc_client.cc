#include "gateway/grpc_client.h"

#include <utility>

#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_call.h"

namespace ingot::gateway {
namespace {

class GrpcClient final : public Client {
 public:
  GrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline)
      : stubs_(std::move(channel)), policy_{.timeout = deadline, .wait = false, .repeat = false} {}

  absl::StatusOr<v1::GatewayStatusResponse> Status() override {
    return v1::CallUnary(stubs_, &v1::Gateway::Stub::Status, v1::GatewayStatusRequest(), policy_);
  }
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) override {
    return v1::CallUnary(stubs_, &v1::Gateway::Stub::EndUncalled, request, policy_);
  }

 private:
  const v1::Stubs<v1::Gateway> stubs_;
  const v1::CallPolicy policy_;
};

}  // namespace

std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline) {
  return std::make_unique<GrpcClient>(std::move(channel), deadline);
}

}  // namespace ingot::gateway
