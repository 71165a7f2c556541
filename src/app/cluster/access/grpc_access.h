// Who may call the roles of a run, and how. This is the only place that makes gRPC servers and channels. Every rpc
// carries the run's token; with certificates every connection is TLS, and with mutual TLS both sides show one.
//
//   client                                               server
//     TokenInterceptor adds "ingot-token" to each rpc      an auth metadata processor compares it, before any service
//       <- UNAUTHENTICATED without details ------------------ no token, or another one
//     TokenInterceptor says which role rejected the process, and what to do
//
// The interceptor also adds "ingot-rpc-format", the number of the messages' format. A server rejects peers with another
// number with FAILED_PRECONDITION, which names both.
//
// A service's own UNAUTHENTICATED has details (proto/grpc_status.h), and stays as it is.
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

// A call of 200K tokens with log-probs is under 10 MB; weight chunks are cut far smaller.
inline constexpr int kMaxMessageBytes = 256 << 20;
inline constexpr int kKeepaliveMs = 20'000;

struct RpcAccess {
  std::string token;                             // of a server: not empty
  std::string token_key = "cluster.token_file";  // the configuration's key that names the token, for errors
  std::string certificate;  // PEM text of a server's certificates. Empty = the server speaks plain text
  std::string key;          // PEM text of the certificate's key
  std::string ca;           // PEM text that a client verifies servers against. Empty = the client speaks plain text
  // Callers show `certificate` too. A server rejects callers without a certificate that `ca` signed (UNAUTHENTICATED).
  bool mutual = false;
  std::string name;              // expected in servers' certificates; empty = the host of the address
  bool allow_plaintext = false;  // addresses that other machines reach may be used without TLS
};

// The access that the configuration gives to a process that has the token. INVALID_ARGUMENT names the key of a file
// that cannot be read, or, with mutual TLS, of a certificate that its peers would reject.
absl::StatusOr<RpcAccess> AccessOf(const ClusterOptions& cluster, std::string token);

// FAILED_PRECONDITION: other machines reach `address`, HOST:PORT, and the access is without TLS.
absl::Status CheckReach(const std::string& address, const RpcAccess& access);

// REQUIRES: access.token is not empty.
std::shared_ptr<grpc::ServerCredentials> ServerAccess(const RpcAccess& access);

// An rpc that has run for a while.
struct LongCall {
  std::string method;  // "AppendCall"
  std::chrono::steady_clock::time_point since;
  bool stream = false;
};

// The rpcs that run on one channel to a role. When the role moves, Close ends them with UNAVAILABLE, and callers retry.
// That includes rpcs that wait for a dead address. Thread safe.
class RunningCalls {
 public:
  // From the start of an rpc to its status. An rpc that starts after Close is cancelled too.
  void Add(grpc::ClientContext* context, LongCall call);
  void Remove(grpc::ClientContext* context);
  void Close();
  bool closed() const;
  // The rpcs that started before `when`.
  std::vector<LongCall> Before(std::chrono::steady_clock::time_point when) const;

 private:
  // Recursive, because an rpc may end within its own cancellation.
  mutable std::recursive_mutex mu_;
  bool closed_ = false;
  std::map<grpc::ClientContext*, LongCall> running_;
};

// A channel with the project's message limits and keep-alive; connects lazily, and again after failures.
std::shared_ptr<grpc::Channel> Connect(const std::string& address, const RpcAccess& access,
                                       std::shared_ptr<RunningCalls> calls = nullptr);

// A channel to a role whose address is not known. Its rpcs always fail with the error `missing`.
std::shared_ptr<grpc::Channel> ConnectNowhere(const std::string& missing, std::shared_ptr<RunningCalls> calls);

}  // namespace ingot::app
