// Controls who may call a run's roles. All gRPC servers and channels between roles use these credentials. Every rpc
// carries the run's token. With certificates, every connection uses TLS. With mutual TLS, both sides present a
// certificate.
//
//   client                                               server
//     TokenInterceptor adds "ingot-token" to each rpc      an auth metadata processor compares it before any service
//       <- UNAUTHENTICATED without details ------------------ missing or wrong token
//     TokenInterceptor names the role that rejected the process, and the fix
//
// The interceptor also adds "ingot-rpc-format", the version of the message format. A server rejects peers that use
// another version with FAILED_PRECONDITION, and the error names both versions.
//
// An UNAUTHENTICATED error that a service itself returns has details (proto/grpc_status.h) and passes through
// unchanged.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// A 200K-token call with log-probs is under 10 MB. Weight chunks are far smaller.
inline constexpr int kMaxMessageBytes = 256 << 20;
inline constexpr int kKeepaliveMs = 20'000;

struct RpcAccess {
  std::string token;                             // never empty on a server
  std::string token_key = "cluster.token_file";  // the token's configuration key, for error messages
  std::string certificate;                       // server certificate chain in PEM; empty = the server uses plaintext
  std::string key;                               // the certificate's key in PEM
  std::string ca;  // CA that a client verifies servers with, in PEM; empty = the client uses plaintext
  // true = callers also present `certificate`. A server rejects callers whose certificate was not signed by `ca`
  // (UNAUTHENTICATED).
  bool mutual = false;
  std::string name;              // name that server certificates must have; empty = the host in the address
  bool allow_plaintext = false;  // allows addresses that other machines can reach without TLS
};

// Returns the configured access for a process that has the token. Returns INVALID_ARGUMENT, naming the key, if a file
// cannot be read or if, with mutual TLS, peers would reject the certificate.
absl::StatusOr<RpcAccess> AccessOf(const ClusterOptions& cluster, std::string token);

// Returns FAILED_PRECONDITION if other machines can reach `address` (HOST:PORT) and the access has no TLS.
absl::Status CheckReach(const std::string& address, const RpcAccess& access);

// REQUIRES: access.token is not empty.
std::shared_ptr<grpc::ServerCredentials> ServerAccess(const RpcAccess& access);

// An rpc that has been running for a while.
struct LongCall {
  std::string method;  // such as "AppendCall"
  std::chrono::steady_clock::time_point since;
  bool stream = false;
};

// Tracks the running rpcs on one channel to a role. When the role moves, Close ends them with UNAVAILABLE so that
// callers retry. This includes rpcs that wait for a dead address. Thread safe.
class RunningCalls {
 public:
  // Call Add when an rpc starts and Remove when its status arrives. An rpc added after Close is also cancelled.
  void Add(grpc::ClientContext* context, LongCall call);
  void Remove(grpc::ClientContext* context);
  void Close();
  bool closed() const;
  // Returns the rpcs that started before `when`.
  std::vector<LongCall> Before(std::chrono::steady_clock::time_point when) const;

 private:
  // Recursive because an rpc may end inside its own cancellation.
  mutable std::recursive_mutex mu_;
  bool closed_ = false;
  std::map<grpc::ClientContext*, LongCall> running_;
};

// Creates a channel with the project's message limits and keepalive. It connects lazily and reconnects after failures.
std::shared_ptr<grpc::Channel> Connect(const std::string& address, const RpcAccess& access,
                                       std::shared_ptr<RunningCalls> calls = nullptr);

// Creates a channel to a role whose address is unknown. All rpcs on it fail with the error `missing`.
std::shared_ptr<grpc::Channel> ConnectNowhere(const std::string& missing, std::shared_ptr<RunningCalls> calls);

}  // namespace ingot::app
