// Makes calls to an etcd cluster's members. Decides which member to call, for how long, and with which credentials, and
// formats errors. Thread safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "proto/etcd.grpc.pb.h"
#include "registry/grpc_etcd.h"

namespace ingot::registry {

namespace api = ::etcdserverpb;

struct EtcdMember {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<api::KV::Stub> kv;
  std::unique_ptr<api::Watch::Stub> watch;
  std::unique_ptr<api::Lease::Stub> lease;
  std::unique_ptr<api::Auth::Stub> auth;

  // Waits up to `most` for a connection. Returns true if it waited, or false immediately if there already is one. A
  // channel connects only while some thread polls its sockets, either a serving thread or a thread that waits for a
  // call. A call on a disconnected channel fails immediately. Without this wait, a process that does not serve anything
  // would never reconnect to a restarted member.
  bool AwaitConnection(std::chrono::milliseconds most) const;
};

class EtcdClient {
 public:
  explicit EtcdClient(EtcdOptions options);

  // Queries every member once. Returns the same errors as ConnectEtcd.
  absl::Status Probe();

  // These block until a member answers or the deadline passes. If one returns UNAVAILABLE, it may have been applied.
  absl::StatusOr<api::RangeResponse> Range(const api::RangeRequest& request);
  absl::StatusOr<api::TxnResponse> Txn(const api::TxnRequest& request);
  absl::StatusOr<api::DeleteRangeResponse> DeleteRange(const api::DeleteRangeRequest& request);
  // Safe to repeat because the request contains the lease id.
  absl::StatusOr<api::LeaseGrantResponse> Grant(const api::LeaseGrantRequest& request);
  // Returns NOT_FOUND if the lease has expired.
  absl::Status KeepAlive(int64_t lease, std::chrono::milliseconds deadline);
  absl::Status Revoke(int64_t lease, std::chrono::milliseconds deadline);

  // Returns the members, among which a stream's caller chooses.
  const std::vector<std::unique_ptr<EtcdMember>>& members() const { return members_; }
  absl::Status Authorize(grpc::ClientContext& context, const EtcdMember& member);
  // Converts an error that every member would return to etcd's message plus the location and the fix.
  absl::Status Explain(const grpc::Status& status, const EtcdMember& member) const;

  // Includes the endpoints. A call's error names at most one member because one line may contain several errors.
  std::string Describe() const;
  const EtcdOptions& options() const { return options_; }

 private:
  // Makes one attempt at a member within the context's deadline. Stores the response header in `header`.
  using Rpc =
      std::function<grpc::Status(EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header)>;

  absl::Status Call(const Rpc& rpc, std::chrono::milliseconds deadline);
  // Returns the error without "etcd at" and, if there is only one member, without its address.
  std::string CauseOf(const absl::Status& status) const;
  // Makes one attempt at one member, and logs in again if etcd rejects the old login. Sets `other` to false if trying
  // other members would not help.
  absl::Status Try(const Rpc& rpc, EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  absl::Status Login(EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  // Waits between rounds of trying all members.
  void Pause();
  absl::Status CheckCluster(const api::ResponseHeader& header, const EtcdMember& member);

  const EtcdOptions options_;
  std::vector<std::unique_ptr<EtcdMember>> members_;
  base::Mutex mu_;
  size_t current_ ABSL_GUARDED_BY(mu_) = 0;          // the member to try first
  uint64_t cluster_ ABSL_GUARDED_BY(mu_) = 0;        // 0 = no member has answered yet
  std::string cluster_member_ ABSL_GUARDED_BY(mu_);  // the member that reported it
  std::string token_ ABSL_GUARDED_BY(mu_);           // login token; empty = not logged in
};

}  // namespace ingot::registry
