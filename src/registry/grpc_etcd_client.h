// Calls to the members of one etcd cluster: which member is asked, for how long, with which credentials, and how errors
// read. Thread safe.
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

  // Waits for a connection, for `most` at most; false at once, if there is one. A channel makes its connection only while
  // some thread reads from sockets: one that serves, or whose call waits. A call to a channel without a connection fails
  // at once. So a process that serves nothing would not reach a member again that was gone, unless it waited here.
  bool AwaitConnection(std::chrono::milliseconds most) const;
};

class EtcdClient {
 public:
  explicit EtcdClient(EtcdOptions options);

  // Asks every member once; errors as ConnectEtcd's.
  absl::Status Probe();

  // Each blocks until a member answers or the deadline has passed. A call that is answered with UNAVAILABLE may have happened.
  absl::StatusOr<api::RangeResponse> Range(const api::RangeRequest& request);
  absl::StatusOr<api::TxnResponse> Txn(const api::TxnRequest& request);
  absl::StatusOr<api::DeleteRangeResponse> DeleteRange(const api::DeleteRangeRequest& request);
  // Repeated safely: the request names the lease's id.
  absl::StatusOr<api::LeaseGrantResponse> Grant(const api::LeaseGrantRequest& request);
  // NOT_FOUND: the lease is over.
  absl::Status KeepAlive(int64_t lease, std::chrono::milliseconds deadline);
  absl::Status Revoke(int64_t lease, std::chrono::milliseconds deadline);

  // For streams, whose caller chooses among members().
  const std::vector<std::unique_ptr<EtcdMember>>& members() const { return members_; }
  absl::Status Authorize(grpc::ClientContext& context, const EtcdMember& member);
  // An error that no other member would answer differently: etcd's words with the place and the thing to mend.
  absl::Status Explain(const grpc::Status& status, const EtcdMember& member) const;

  // With the endpoints. Errors of calls name one member at most, as many of them may be told in one line.
  std::string Describe() const;
  const EtcdOptions& options() const { return options_; }

 private:
  // One try at a member, within the context's deadline. Returns the answer's header by `header`.
  using Rpc =
      std::function<grpc::Status(EtcdMember& member, grpc::ClientContext* context, api::ResponseHeader* header)>;

  absl::Status Call(const Rpc& rpc, std::chrono::milliseconds deadline);
  // An error without the words "etcd at", and without the address of a single member.
  std::string CauseOf(const absl::Status& status) const;
  // One try at one member, with a new login if the old one is refused. False by `other`: no other member need be asked.
  absl::Status Try(const Rpc& rpc, EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  absl::Status Login(EtcdMember& member, std::chrono::milliseconds deadline, bool& other);
  // Between two rounds over the members.
  void Pause();
  absl::Status CheckCluster(const api::ResponseHeader& header, const EtcdMember& member);

  const EtcdOptions options_;
  std::vector<std::unique_ptr<EtcdMember>> members_;
  base::Mutex mu_;
  size_t current_ ABSL_GUARDED_BY(mu_) = 0;          // the member that is asked first
  uint64_t cluster_ ABSL_GUARDED_BY(mu_) = 0;        // 0 = none answered yet
  std::string cluster_member_ ABSL_GUARDED_BY(mu_);  // that told it
  std::string token_ ABSL_GUARDED_BY(mu_);           // of the login; empty = none yet
};

}  // namespace ingot::registry
