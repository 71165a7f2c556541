#include "engines/grpc_client.h"

#include <utility>

#include "proto/engine_guard.grpc.pb.h"
#include "proto/grpc_call.h"

namespace ingot::engines {
namespace {

class GrpcEngineGuard final : public EngineGuard {
 public:
  GrpcEngineGuard(v1::RoleChannel channel, std::chrono::milliseconds timeout)
      : stubs_(std::move(channel)), timeout_(timeout) {}

  absl::Status SetAside(const std::string& why) override {
    v1::SetAsideRequest request;
    request.set_why(why);
    return v1::CallUnary(stubs_, &v1::EngineGuard::Stub::SetAside, request, {.timeout = timeout_}).status();
  }

 private:
  const v1::Stubs<v1::EngineGuard> stubs_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace

std::shared_ptr<EngineGuard> NewGrpcEngineGuard(v1::RoleChannel channel, std::chrono::milliseconds timeout) {
  return std::make_shared<GrpcEngineGuard>(std::move(channel), timeout);
}

}  // namespace ingot::engines
