#include "app/cluster/access/grpc_server.h"

#include <chrono>

namespace ingot::app {

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string& address,
                                                              std::vector<std::unique_ptr<grpc::Service>> services,
                                                              const RpcAccess& access) {
  if (access.token.empty()) return absl::InternalError(absl::StrCat("the listener at ", address, " has no token"));
  INGOT_RETURN_IF_ERROR(CheckReach(address, access));
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer);
  server->services_ = std::move(services);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 2);
  builder.AddListeningPort(address, ServerAccess(access), &server->port_);
  for (const auto& service : server->services_) builder.RegisterService(service.get());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                               ": the port is in use, or the address does not belong to this machine"));
  }
  return server;
}

GrpcServer::~GrpcServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  server_->Wait();
}

}  // namespace ingot::app
