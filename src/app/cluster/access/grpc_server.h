// A gRPC server over a list of services. It requires the run's token for every call (grpc_access.h).
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "base/status.h"

namespace ingot::app {

// Listens until destroyed. The destructor rejects new calls, gives running calls two seconds and then cancels them.
class GrpcServer {
 public:
  // `address` is HOST:PORT; port 0 = a free one. UNAVAILABLE names an address that is in use. FAILED_PRECONDITION:
  // CheckReach. REQUIRES: access.token is not empty.
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
