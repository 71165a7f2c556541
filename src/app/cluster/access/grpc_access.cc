#include "app/cluster/access/grpc_access.h"

#include <arpa/inet.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/format.h"
#include "base/secret.h"
#include "http/tls.h"

namespace ingot::app {
namespace {

constexpr char kTokenName[] = "ingot-token";
// Version of the services and messages in proto/. Increment it for changes that older peers would misread.
constexpr base::Format kRpcFormat = {"rpc", 1};
constexpr char kFormatName[] = "ingot-rpc-format";
constexpr int kMaxReconnectMs = 2000;

std::string_view Text(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// ---- Server side ----------------------------------------------------------------------------------------------------

// A server's requirements for its callers.
struct Demands {
  std::string token;
  bool certificate = false;
};

// `shown` is the peer's version; null = the peer is from before rpcs had versions.
absl::Status CheckPeerFormat(const grpc_metadata* shown) {
  int64_t number = 0;
  if (shown != nullptr && !absl::SimpleAtoi(std::string(Text(shown->value)), &number)) number = -1;
  return base::CheckFormat(kRpcFormat, number, "the caller",
                           "run the same version of ingot on all of the run's machines");
}

// Called for every rpc before the service. `state` is the Demands.
void CheckCaller(void* state, grpc_auth_context* peer, const grpc_metadata* metadata, size_t count,
                 grpc_process_auth_metadata_done_cb done, void* rpc) {
  const Demands& demands = *static_cast<const Demands*>(state);
  if (demands.certificate && grpc_auth_context_peer_is_authenticated(peer) == 0) {
    done(rpc, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED,
         "it presents no certificate, but the role requires one (cluster.tls.mutual)");
    return;
  }
  const auto find = [&](const char* name) {
    const grpc_metadata* const end = metadata + count;
    const grpc_metadata* const found =
        std::find_if(metadata, end, [&](const grpc_metadata& one) { return Text(one.key) == name; });
    return found == end ? nullptr : found;
  };
  const grpc_metadata* const shown = find(kTokenName);
  if (shown == nullptr) {
    done(rpc, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED, "the RPC has no token");
  } else if (!base::SameSecret(Text(shown->value), demands.token)) {
    done(rpc, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED, "the RPC's token is not this run's token");
  } else if (const absl::Status format = CheckPeerFormat(find(kFormatName)); !format.ok()) {
    done(rpc, nullptr, 0, nullptr, 0, GRPC_STATUS_FAILED_PRECONDITION, std::string(format.message()).c_str());
  } else {
    done(rpc, shown, 1, nullptr, 0, GRPC_STATUS_OK, nullptr);  // hidden from services
  }
}

void DropDemands(void* state) { delete static_cast<Demands*>(state); }

// Credentials for a listener that requires the token. gRPC's own plaintext credentials do not support a processor.
class TokenCredentials final : public grpc::ServerCredentials {
 public:
  explicit TokenCredentials(RpcAccess access) : access_(std::move(access)) {}
  // Ignored, because CheckCaller is the processor.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_ssl_pem_key_cert_pair pair = {access_.key.c_str(), access_.certificate.c_str()};
    grpc_server_credentials* const credentials =
        access_.certificate.empty()
            ? grpc_insecure_server_credentials_create()
            : grpc_ssl_server_credentials_create_ex(access_.mutual ? access_.ca.c_str() : nullptr, &pair, 1,
                                                    access_.mutual ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                                                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                                                    nullptr);
    grpc_server_credentials_set_auth_metadata_processor(
        credentials, {CheckCaller, DropDemands, new Demands{access_.token, access_.mutual}});
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  const RpcAccess access_;
};

// ---- Client side ----------------------------------------------------------------------------------------------------

// A channel's constants.
struct Caller {
  std::string address;
  std::string token;
  std::string token_key;
  std::string missing;                  // error for all rpcs; empty = rpcs are sent
  std::shared_ptr<RunningCalls> calls;  // null = the channel is never closed
};

std::string Explain(const Caller& caller, const std::string& rejection) {
  return absl::StrCat("the role at ", caller.address, " rejects this process: ", rejection,
                      ". Roles started by `ingot launch` get the run's token from it; roles and commands that you "
                      "start yourself read it from ",
                      caller.token_key, ", which must be the same everywhere");
}

class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  TokenInterceptor(std::shared_ptr<const Caller> caller, grpc::experimental::ClientRpcInfo& rpc)
      : caller_(std::move(caller)), context_(rpc.client_context()) {
    if (caller_->calls == nullptr) return;
    const std::string_view method = rpc.method();  // such as "/ingot.v1.DataPool/AppendCall"
    caller_->calls->Add(context_, {std::string(method.substr(method.rfind('/') + 1)), std::chrono::steady_clock::now(),
                                   rpc.type() != grpc::experimental::ClientRpcInfo::Type::UNARY});
  }
  ~TokenInterceptor() override { Forget(); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA) && !caller_->token.empty()) {
      batch->GetSendInitialMetadata()->emplace(kTokenName, caller_->token);
      batch->GetSendInitialMetadata()->emplace(kFormatName, absl::StrCat(kRpcFormat.number));
    }
    if (batch->QueryInterceptionHookPoint(Hook::POST_RECV_STATUS)) {
      grpc::Status& status = *batch->GetRecvStatus();
      Forget();
      const bool silent = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                          status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (silent && !caller_->missing.empty()) status = grpc::Status(status.error_code(), caller_->missing);
      if (status.error_code() == grpc::StatusCode::CANCELLED && caller_->calls != nullptr && caller_->calls->closed()) {
        status =
            grpc::Status(grpc::StatusCode::UNAVAILABLE, absl::StrCat("the role at ", caller_->address, " has moved"));
      }
      if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED && status.error_details().empty()) {
        status = grpc::Status(status.error_code(), Explain(*caller_, status.error_message()));
      }
    }
    batch->Proceed();
  }

 private:
  void Forget() {
    if (caller_->calls != nullptr && context_ != nullptr) caller_->calls->Remove(context_);
    context_ = nullptr;
  }

  const std::shared_ptr<const Caller> caller_;
  grpc::ClientContext* context_;  // null after the rpc has ended
};

class TokenInterceptors final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptors(std::shared_ptr<const Caller> caller) : caller_(std::move(caller)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* rpc) override {
    return new TokenInterceptor(caller_, *rpc);  // owned by gRPC
  }

 private:
  const std::shared_ptr<const Caller> caller_;
};

absl::StatusOr<std::string> ReadPem(const char* key, const std::string& path) {
  absl::StatusOr<std::string> text = base::ReadFile(path);
  return text.ok() ? std::move(text) : base::Annotate(text.status(), key);
}

// Returns the host in HOST:PORT or [HOST]:PORT.
std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

}  // namespace

absl::StatusOr<RpcAccess> AccessOf(const ClusterOptions& cluster, std::string token) {
  RpcAccess access;
  access.token = std::move(token);
  access.allow_plaintext = cluster.allow_plaintext;
  if (cluster.tls_certificate.empty()) return access;
  const std::string& ca = cluster.tls_ca.empty() ? cluster.tls_certificate : cluster.tls_ca;
  INGOT_RETURN_IF_ERROR(
      base::Annotate(http::NewTlsContext(cluster.tls_certificate, cluster.tls_key).status(), "cluster"));
  INGOT_RETURN_IF_ERROR(base::Annotate(http::CheckTrusted(ca), "cluster"));
  INGOT_ASSIGN_OR_RETURN(access.certificate, ReadPem("cluster.tls.certificate", cluster.tls_certificate));
  INGOT_ASSIGN_OR_RETURN(access.key, ReadPem("cluster.tls.key", cluster.tls_key));
  INGOT_ASSIGN_OR_RETURN(access.ca, ReadPem("cluster.tls.ca", ca));
  access.mutual = cluster.mutual_tls;
  access.name = cluster.tls_name;
  if (access.mutual) {
    INGOT_RETURN_IF_ERROR(base::Annotate(http::CheckSigned(cluster.tls_certificate, ca), "cluster.tls.mutual"));
  }
  return access;
}

absl::Status CheckReach(const std::string& address, const RpcAccess& access) {
  const std::string host = HostOf(address);
  if (!access.certificate.empty() || !access.ca.empty() || access.allow_plaintext) return absl::OkStatus();
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return absl::OkStatus();  // no process can listen there
  bool loopback = true;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    loopback = loopback && IsLoopback(*one->ai_addr);
  freeaddrinfo(found);
  if (loopback) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "host ", host,
      " can be reached from other machines, and without TLS anyone on the network can read the run's token: set "
      "cluster.tls.certificate and cluster.tls.key (`ingot serve`: --tls-certificate and --tls-key), or, on a private "
      "network, allow connections without TLS (cluster.tls.allow_plaintext; --allow-plaintext)"));
}

std::shared_ptr<grpc::ServerCredentials> ServerAccess(const RpcAccess& access) {
  return std::make_shared<TokenCredentials>(access);
}

void RunningCalls::Add(grpc::ClientContext* context, LongCall call) {
  std::lock_guard<std::recursive_mutex> lock(mu_);
  running_.emplace(context, std::move(call));
  if (closed_) context->TryCancel();
}

void RunningCalls::Remove(grpc::ClientContext* context) {
  std::lock_guard<std::recursive_mutex> lock(mu_);
  running_.erase(context);
}

std::vector<LongCall> RunningCalls::Before(std::chrono::steady_clock::time_point when) const {
  std::lock_guard<std::recursive_mutex> lock(mu_);
  std::vector<LongCall> calls;
  for (const auto& [context, call] : running_) {
    if (call.since < when) calls.push_back(call);
  }
  return calls;
}

void RunningCalls::Close() {
  std::lock_guard<std::recursive_mutex> lock(mu_);
  closed_ = true;
  std::vector<grpc::ClientContext*> contexts;
  for (const auto& [context, call] : running_) contexts.push_back(context);
  for (grpc::ClientContext* context : contexts) {
    if (running_.contains(context)) context->TryCancel();
  }
}

bool RunningCalls::closed() const {
  std::lock_guard<std::recursive_mutex> lock(mu_);
  return closed_;
}

namespace {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target, const RpcAccess& access, Caller caller) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // proxies in the environment are for external servers
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // Lets a call detect a peer that disappeared silently.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!access.ca.empty()) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = access.ca;
    if (access.mutual) {
      options.pem_cert_chain = access.certificate;
      options.pem_private_key = access.key;
    }
    if (!access.name.empty()) arguments.SetSslTargetNameOverride(access.name);
    credentials = grpc::SslCredentials(options);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenInterceptors>(std::make_shared<const Caller>(std::move(caller))));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(interceptors));
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& address, const RpcAccess& access,
                                       std::shared_ptr<RunningCalls> calls) {
  return NewChannel(address, access, {address, access.token, access.token_key, "", std::move(calls)});
}

std::shared_ptr<grpc::Channel> ConnectNowhere(const std::string& missing, std::shared_ptr<RunningCalls> calls) {
  // This file cannot exist, so nothing can listen there and no packet is sent.
  return NewChannel("unix:/dev/null/nowhere", {}, {"", "", "", missing, std::move(calls)});
}

}  // namespace ingot::app
