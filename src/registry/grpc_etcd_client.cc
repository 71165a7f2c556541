#include "registry/grpc_etcd_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/waits.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMemberDeadline(2000);
constexpr milliseconds kPause(50);  // after every member was tried
// etcd closes connections that ping more often than every five seconds.
constexpr int kKeepaliveMs = 6000, kKeepaliveTimeoutMs = 3000;
constexpr int kMinReconnectMs = 1000, kMaxReconnectMs = 1000;

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy in the environment is meant for external servers
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMinReconnectMs);  // also the timeout for connecting
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // Lets a watch detect that a member is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const EtcdOptions& options) {
  if (options.ca.empty()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({options.ca, options.key, options.certificate});
}

void SetDeadline(grpc::ClientContext& context, milliseconds deadline) {
  context.set_deadline(std::chrono::system_clock::now() + std::max(deadline, milliseconds(1)));
}

// Returns true if another member may answer.
bool IsSilence(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

absl::Status EtcdOptions::Validate() const {
  if (endpoints.empty()) return absl::InvalidArgumentError("etcd: no endpoints are set");
  for (const std::string& endpoint : endpoints) {
    const size_t colon = endpoint.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size() ||
        endpoint.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("etcd endpoint '", endpoint, "' is not HOST:PORT"));
    }
  }
  if (user.empty() != password.empty())
    return absl::InvalidArgumentError("etcd: set both user and password, or neither");
  if (certificate.empty() != key.empty())
    return absl::InvalidArgumentError("etcd: set both certificate and key, or neither");
  if (!certificate.empty() && ca.empty()) return absl::InvalidArgumentError("etcd: a client certificate needs a ca");
  if (deadline < milliseconds(100)) return absl::InvalidArgumentError("etcd: the deadline is under 100 ms");
  return absl::OkStatus();
}

namespace {

// Returns why a member did not answer, without the leading address, which the line already contains.
std::string WithoutAddress(const std::string& said, const std::string& address) {
  const size_t at = said.rfind(address + ": ");
  return at == std::string::npos ? said : said.substr(at + address.size() + 2);
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions options) : options_(std::move(options)) {
  for (const std::string& endpoint : options_.endpoints) {
    const auto channel = grpc::CreateCustomChannel(endpoint, Credentials(options_), ChannelArguments());
    auto member = std::make_unique<EtcdMember>();
    member->address = endpoint;
    member->channel = channel;
    member->kv = api::KV::NewStub(channel);
    member->watch = api::Watch::NewStub(channel);
    member->lease = api::Lease::NewStub(channel);
    member->auth = api::Auth::NewStub(channel);
    members_.push_back(std::move(member));
  }
}

std::string EtcdClient::Describe() const { return absl::StrCat("etcd at ", absl::StrJoin(options_.endpoints, ", ")); }

absl::Status EtcdClient::Explain(const grpc::Status& status, const EtcdMember& member) const {
  const std::string place = absl::StrCat("etcd at ", member.address, ": "), said = status.error_message();
  const std::string user = options_.user.empty() ? "no user is set" : absl::StrCat("user '", options_.user, "'");
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(absl::StrCat(place, WithoutAddress(said, member.address)));
    case grpc::StatusCode::INVALID_ARGUMENT:  // arguments are checked before they are sent, so the user is the problem
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::UnauthenticatedError(absl::StrCat(place, said, " (", user, "): check the user and the password"));
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::PermissionDeniedError(
          absl::StrCat(place, said, " (", user, "): the user needs a role that may read and write the run's keys"));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::FailedPreconditionError(
          absl::StrCat(place, "the server is not etcd v3 (", said, "): check the endpoints"));
    default:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), absl::StrCat(place, said));
  }
}

absl::Status EtcdClient::CheckCluster(const api::ResponseHeader& header, const EtcdMember& member) {
  base::MutexLock lock(mu_);
  if (cluster_ == 0) {
    cluster_ = header.cluster_id();
    cluster_member_ = member.address;
  }
  if (header.cluster_id() == cluster_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("etcd at ", member.address, " belongs to a different cluster than ", cluster_member_, " (",
                   absl::Hex(header.cluster_id()), ", not ", absl::Hex(cluster_),
                   "): name endpoints of one cluster, and start the run again if it was replaced"));
}

absl::Status EtcdClient::Authorize(grpc::ClientContext& context, const EtcdMember& member) {
  if (options_.user.empty()) return absl::OkStatus();
  std::string token;
  {
    base::MutexLock lock(mu_);
    token = token_;
  }
  if (token.empty()) return absl::UnauthenticatedError(absl::StrCat("etcd at ", member.address, ": not logged in"));
  context.AddMetadata("token", token);
  return absl::OkStatus();
}

absl::Status EtcdClient::Login(EtcdMember& member, milliseconds deadline, bool& other) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  api::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  api::AuthenticateResponse response;
  const grpc::Status status = member.auth->Authenticate(&context, request, &response);
  other = IsSilence(status);
  if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
    return absl::FailedPreconditionError(absl::StrCat("etcd at ", member.address, ": ", status.error_message(),
                                                      ", and user '", options_.user,
                                                      "' is set: remove the user, or enable authentication"));
  }
  if (!status.ok()) return Explain(status, member);
  base::MutexLock lock(mu_);
  token_ = response.token();
  return absl::OkStatus();
}

absl::Status EtcdClient::Try(const Rpc& rpc, EtcdMember& member, milliseconds deadline, bool& other) {
  grpc::Status status;
  other = false;
  for (int login = 0; login < 2; ++login) {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    api::ResponseHeader header;
    const bool authorized = Authorize(context, member).ok();
    if (authorized) status = rpc(member, &context, &header);
    if (authorized && status.ok()) return CheckCluster(header, member);
    // The login has expired or predates a change to the users.
    const bool rejected = !authorized || status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                          status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
    if (options_.user.empty() || !rejected || login > 0) break;
    INGOT_RETURN_IF_ERROR(Login(member, deadline, other));
  }
  other = IsSilence(status);
  return Explain(status, member);
}

bool EtcdMember::AwaitConnection(milliseconds most) const {
  if (channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return false;
  channel->WaitForConnected(std::chrono::system_clock::now() + most);
  return true;
}

void EtcdClient::Pause() {
  bool waited = false;
  for (const auto& member : members_) waited = member->AwaitConnection(kPause) || waited;
  if (!waited) std::this_thread::sleep_for(kPause);
}

absl::Status EtcdClient::Call(const Rpc& rpc, milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  base::Wait wait(Describe());
  absl::Status last;
  for (;;) {
    for (size_t tried = 0; tried < members_.size(); ++tried) {
      const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
      if (left <= milliseconds(0)) break;
      size_t chosen = 0;
      {
        base::MutexLock lock(mu_);
        chosen = current_;
      }
      bool other = false;
      const milliseconds share = std::max(deadline / static_cast<int>(members_.size()), milliseconds(100));
      last = Try(rpc, *members_[chosen], std::min({left, share, kMemberDeadline}), other);
      if (last.ok() || !other) return last;
      wait.Because(absl::StrCat(Describe(), " (", CauseOf(last), ")"));
      base::MutexLock lock(mu_);
      if (current_ == chosen) current_ = (chosen + 1) % members_.size();
    }
    if (std::chrono::steady_clock::now() + kPause >= end) break;
    Pause();
  }
  return absl::UnavailableError(
      absl::StrCat("etcd: no member answered within ", deadline.count(), " ms; last error: ", CauseOf(last)));
}

std::string EtcdClient::CauseOf(const absl::Status& status) const {
  std::string text(status.message());
  const std::string place = "etcd at ", single = absl::StrCat(place, options_.endpoints.front(), ": ");
  if (members_.size() == 1 && text.starts_with(single)) return text.substr(single.size());
  return text.starts_with(place) ? text.substr(place.size()) : text;
}

absl::Status EtcdClient::Probe() {
  api::RangeRequest request;
  request.set_key("ingot");
  const Rpc rpc = [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
    api::RangeResponse response;
    const grpc::Status status = member.kv->Range(context, request, &response);
    *header = response.header();
    return status;
  };
  bool any = false;
  for (const auto& member : members_) {
    bool other = false;
    const absl::Status status = Try(rpc, *member, std::min(options_.deadline, kMemberDeadline), other);
    if (!status.ok() && !other) return status;
    any = any || status.ok();
  }
  // An election may be in progress.
  const absl::Status answered = any ? absl::OkStatus() : Call(rpc, options_.deadline);
  if (!absl::IsUnavailable(answered)) return answered;
  return absl::UnavailableError(
      absl::StrCat("the endpoints are ", absl::StrJoin(options_.endpoints, ", "), "; ", answered.message(),
                   ": check the endpoints, and that most members are running (`etcdctl endpoint health` for each)"));
}

absl::StatusOr<api::RangeResponse> EtcdClient::Range(const api::RangeRequest& request) {
  api::RangeResponse response;
  INGOT_RETURN_IF_ERROR(Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        const grpc::Status status = member.kv->Range(context, request, &response);
        *header = response.header();
        return status;
      },
      options_.deadline));
  return response;
}

absl::StatusOr<api::TxnResponse> EtcdClient::Txn(const api::TxnRequest& request) {
  api::TxnResponse response;
  INGOT_RETURN_IF_ERROR(Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        const grpc::Status status = member.kv->Txn(context, request, &response);
        *header = response.header();
        return status;
      },
      options_.deadline));
  return response;
}

absl::StatusOr<api::DeleteRangeResponse> EtcdClient::DeleteRange(const api::DeleteRangeRequest& request) {
  api::DeleteRangeResponse response;
  INGOT_RETURN_IF_ERROR(Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        const grpc::Status status = member.kv->DeleteRange(context, request, &response);
        *header = response.header();
        return status;
      },
      options_.deadline));
  return response;
}

absl::StatusOr<api::LeaseGrantResponse> EtcdClient::Grant(const api::LeaseGrantRequest& request) {
  api::LeaseGrantResponse response;
  bool again = false;
  INGOT_RETURN_IF_ERROR(Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        const grpc::Status status = member.lease->LeaseGrant(context, request, &response);
        *header = response.header();
        if (again && status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
          // The lease exists: an earlier attempt succeeded, and its response was lost.
          api::LeaseGrantResponse granted;
          granted.set_id(request.id());
          granted.set_ttl(request.ttl());
          response = granted;
          base::MutexLock lock(mu_);
          header->set_cluster_id(cluster_);
          return grpc::Status::OK;
        }
        again = true;
        return status;
      },
      options_.deadline));
  return response;
}

absl::Status EtcdClient::KeepAlive(int64_t lease, milliseconds deadline) {
  api::LeaseKeepAliveResponse response;
  INGOT_RETURN_IF_ERROR(Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        api::LeaseKeepAliveRequest request;
        request.set_id(lease);
        const auto stream = member.lease->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        stream->WritesDone();
        api::LeaseKeepAliveResponse none;
        while (answered && stream->Read(&none)) {
        }
        const grpc::Status status = stream->Finish();
        *header = response.header();
        if (answered) return grpc::Status::OK;
        return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer to a renewal") : status;
      },
      deadline));
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(Describe(), ": lease ", lease, " has expired"));
}

absl::Status EtcdClient::Revoke(int64_t lease, milliseconds deadline) {
  return Call(
      [&](EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header) {
        api::LeaseRevokeRequest request;
        request.set_id(lease);
        api::LeaseRevokeResponse response;
        const grpc::Status status = member.lease->LeaseRevoke(context, request, &response);
        *header = response.header();
        return status;
      },
      deadline);
}

}  // namespace ingot::registry
