#include "engines/service.h"

#include <grpcpp/grpcpp.h>

#include "proto/engine_guard.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::engines {
namespace {

class EngineGuardService final : public v1::EngineGuard::Service {
 public:
  explicit EngineGuardService(EngineGuard& guard) : guard_(guard) {}

  grpc::Status SetAside(grpc::ServerContext*, const v1::SetAsideRequest* request, v1::SetAsideResponse*) override {
    return v1::ToGrpc(guard_.SetAside(request->why()));
  }

 private:
  EngineGuard& guard_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewEngineGuardService(EngineGuard& guard) {
  return std::make_unique<EngineGuardService>(guard);
}

}  // namespace ingot::engines
