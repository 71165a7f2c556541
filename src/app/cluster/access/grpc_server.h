// Serves a list of services over gRPC. Every call must carry the run's token (grpc_access.h).
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "base/status.h"

namespace ingot::app {

// Listens until destroyed. The destructor rejects new calls, waits two seconds for running calls, and then cancels
// them.
class GrpcServer {
 public:
  // `address` is HOST:PORT, with port 0 = any free port. Returns UNAVAILABLE if the address is in use, and
  // FAILED_PRECONDITION if CheckReach rejects it. REQUIRES: access.token is not empty.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const std::string& address,
                                                           std::vector<std::unique_ptr<grpc::Service>> services,
                                                           const RpcAccess& access);
  ~GrpcServer();
  int port() const { return port_; }

 private:
  GrpcServer() = default;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace ingot::app
