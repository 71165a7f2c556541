#include "gateway/grpc_peers.h"

#include <grpcpp/grpcpp.h>

#include <thread>
#include <utility>

#include "base/mutex.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::gateway {
namespace {

// Shared by the thread that reads an answer and its exchange's GrpcForwarded.
struct Reading {
  grpc::ClientContext context;
  base::Mutex mu;
  base::CondVar changed;
  bool asked ABSL_GUARDED_BY(mu) = true;
  bool given_up ABSL_GUARDED_BY(mu) = false;

  // Returns false if nobody will read the next part.
  bool AwaitNext() {
    base::MutexLock lock(mu);
    while (!asked && !given_up) changed.Wait(mu);
    asked = false;
    return !given_up;
  }
  void Set(bool next) {
    base::MutexLock lock(mu);
    (next ? asked : given_up) = true;
    changed.SignalAll();
  }
};

class GrpcForwarded final : public Peers::ForwardedCall {
 public:
  GrpcForwarded(std::shared_ptr<v1::Gateway::Stub> stub, v1::ForwardRequest request, std::function<bool()> client_gone,
                Peers::OnPart on_part)
      : reading_(std::make_shared<Reading>()),
        thread_([stub = std::move(stub), request = std::move(request), client_gone = std::move(client_gone),
                 on_part = std::move(on_part),
                 reading = reading_] { Read(*stub, request, client_gone, on_part, *reading); }) {}

  ~GrpcForwarded() override {
    reading_->Set(/*next=*/false);
    reading_->context.TryCancel();
    // The thread may hold the last reference to the exchange that owns this object.
    std::this_thread::get_id() == thread_.get_id() ? thread_.detach() : thread_.join();
  }

  void Next() override { reading_->Set(/*next=*/true); }

 private:
  using Rpc = grpc::ClientReaderWriter<v1::ForwardRequest, v1::ForwardResponse>;

  static void Read(v1::Gateway::Stub& stub, const v1::ForwardRequest& request, const std::function<bool()>& client_gone,
                   const Peers::OnPart& on_part, Reading& reading) {
    const std::unique_ptr<Rpc> rpc = stub.Forward(&reading.context);
    rpc->Write(request);  // a failure shows up in Read
    bool done = false;
    while (!done && reading.AwaitNext()) {
      v1::ForwardResponse part;
      if (!ReadPart(*rpc, client_gone, part)) break;
      done = part.done();
      on_part(std::move(part));
    }
    if (!done) reading.context.TryCancel();
    const grpc::Status status = rpc->Finish();
    if (done) return;
    on_part(status.ok() ? absl::UnavailableError("its response stream ended early") : v1::FromGrpc(status));
  }

  // Reads a part, and answers any questions about the client that arrive first. Returns false if there are no more
  // parts.
  static bool ReadPart(Rpc& rpc, const std::function<bool()>& client_gone, v1::ForwardResponse& part) {
    bool read = rpc.Read(&part);
    while (read && part.asks_if_gone()) {
      v1::ForwardRequest answer;
      answer.set_client_gone(client_gone != nullptr && client_gone());
      read = rpc.Write(answer) && rpc.Read(&part);
    }
    return read;
  }

  const std::shared_ptr<Reading> reading_;
  std::thread thread_;
};

class GrpcPeers final : public Peers {
 public:
  explicit GrpcPeers(GrpcPeersOptions options) : options_(std::move(options)) {
    for (const auto& [role, channel] : options_.channels) stubs_.emplace(role, channel);
  }

  absl::StatusOr<std::vector<std::string>> Present() override { return options_.present(); }

  std::vector<std::string> Others() const override {
    std::vector<std::string> roles;
    for (const auto& [role, stub] : stubs_) roles.push_back(role);
    return roles;
  }

  absl::StatusOr<v1::ServesResponse> Serves(const std::string& role, const v1::ServesRequest& request) override {
    INGOT_ASSIGN_OR_RETURN(const auto stub, StubOf(role));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.deadline);
    context.set_wait_for_ready(true);  // an idle channel must first connect
    v1::ServesResponse response;
    const grpc::Status status = stub->Serves(&context, request, &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

  std::unique_ptr<ForwardedCall> Forward(const std::string& role, v1::ForwardRequest request,
                                         std::function<bool()> client_gone, OnPart on_part) override {
    auto stub = StubOf(role);
    if (stub.ok()) {
      return std::make_unique<GrpcForwarded>(*std::move(stub), std::move(request), std::move(client_gone),
                                             std::move(on_part));
    }
    on_part(stub.status());
    return nullptr;
  }

 private:
  absl::StatusOr<std::shared_ptr<v1::Gateway::Stub>> StubOf(const std::string& role) const {
    const auto found = stubs_.find(role);
    if (found != stubs_.end()) return found->second.Now();
    return absl::UnavailableError(absl::StrCat("'", role, "' is not a gateway of this run"));
  }

  const GrpcPeersOptions options_;
  std::map<std::string, v1::Stubs<v1::Gateway>> stubs_;  // constant after the constructor
};

}  // namespace

std::unique_ptr<Peers> MakeGrpcPeers(GrpcPeersOptions options) {
  return std::make_unique<GrpcPeers>(std::move(options));
}

}  // namespace ingot::gateway
