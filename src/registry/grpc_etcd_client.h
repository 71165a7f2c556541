// Calls to the members of one etcd cluster. Decides which member to ask, for how long, with which credentials, and
// words the errors. Thread safe.
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

  // Waits up to `most` for a connection; false at once, if there is one. A channel connects only while some thread
  // reads from sockets: a serving thread, or one whose call waits. A call to a channel without a connection fails at
  // once. So a process that serves nothing would never reach a restarted member again unless it waited here.
  bool AwaitConnection(std::chrono::milliseconds most) const;
};

class EtcdClient {
 public:
  explicit EtcdClient(EtcdOptions options);

  // Asks every member once; errors as ConnectEtcd's.
  absl::Status Probe();

  // These block until a member answers or the deadline has passed. A call that returns UNAVAILABLE may have happened.
  absl::StatusOr<api::RangeResponse> Range(const api::RangeRequest& request);
  absl::StatusOr<api::TxnResponse> Txn(const api::TxnRequest& request);
  absl::StatusOr<api::DeleteRangeResponse> DeleteRange(const api::DeleteRangeRequest& request);
  // Safe to repeat: the request names the lease's id.
  absl::StatusOr<api::LeaseGrantResponse> Grant(const api::LeaseGrantRequest& request);
  // NOT_FOUND: the lease has expired.
  absl::Status KeepAlive(int64_t lease, std::chrono::milliseconds deadline);
  absl::Status Revoke(int64_t lease, std::chrono::milliseconds deadline);

  // For streams, whose caller chooses among members().
  const std::vector<std::unique_ptr<EtcdMember>>& members() const { return members_; }
  absl::Status Authorize(grpc::ClientContext& context, const EtcdMember& member);
  // An error that every member would return: etcd's words, with the place and the fix.
  absl::Status Explain(const grpc::Status& status, const EtcdMember& member) const;

  // Includes the endpoints. A call's error names at most one member, since one line may hold several errors.
  std::string Describe() const;
  const EtcdOptions& options() const { return options_; }

 private:
  // One try at a member, within the context's deadline. Returns the answer's header in `header`.
  using Rpc =
      std::function<grpc::Status(EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header)>;

  absl::Status Call(const Rpc& rpc, std::chrono::milliseconds deadline);
  // The error without "etcd at"; with a single member, also without its address.
  std::string CauseOf(const absl::Status& status) const;
  // One try at one member, with a new login if etcd rejects the old one. `other` = false: no other member need be
  // asked.
  absl::Status Try(const Rpc& rpc, EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  absl::Status Login(EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  // Between two rounds over the members.
  void Pause();
  absl::Status CheckCluster(const api::ResponseHeader& header, const EtcdMember& member);

  const EtcdOptions options_;
  std::vector<std::unique_ptr<EtcdMember>> members_;
  base::Mutex mu_;
  size_t current_ ABSL_GUARDED_BY(mu_) = 0;          // the member to ask first
  uint64_t cluster_ ABSL_GUARDED_BY(mu_) = 0;        // 0 = none answered yet
  std::string cluster_member_ ABSL_GUARDED_BY(mu_);  // the member that reported it
  std::string token_ ABSL_GUARDED_BY(mu_);           // of the login; empty = not logged in
};

}  // namespace ingot::registry
