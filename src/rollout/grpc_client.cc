#include "rollout/grpc_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "proto/grpc_call.h"
#include "proto/grpc_status.h"
#include "proto/parking.grpc.pb.h"
#include "proto/rollout.grpc.pb.h"
#include "rollout/engine/chunk_gate.h"

namespace ingot::rollout {

namespace {

// The RPCs that gRPC has not finished. If a gRPC callback thread dropped the last reference to a channel, that thread
// would wait for itself. The client therefore owns the channel and outlives every RPC and its context. Contexts are
// cancelled and destroyed outside the lock because either may immediately run another RPC's OnDone.
class LiveStreams {
 public:
  // Returns an id for Forget and Remove, or nullopt if closed.
  std::optional<int64_t> Add(std::shared_ptr<grpc::ClientContext> context) {
    base::MutexLock lock(mu_);
    if (closed_) return std::nullopt;
    contexts_.emplace(next_, std::move(context));
    return next_++;
  }
  // Drops the context. The stream still counts until Remove.
  void Forget(int64_t id) {
    std::shared_ptr<grpc::ClientContext> context;
    base::MutexLock lock(mu_);
    context = std::exchange(contexts_[id], nullptr);
  }
  void Remove(int64_t id) {
    base::MutexLock lock(mu_);
    contexts_.erase(id);
    removed_.SignalAll();
  }
  bool closed() {
    base::MutexLock lock(mu_);
    return closed_;
  }
  void CancelAllAndWait() {
    std::vector<std::shared_ptr<grpc::ClientContext>> contexts;
    {
      base::MutexLock lock(mu_);
      closed_ = true;
      for (const auto& [id, context] : contexts_) {
        if (context != nullptr) contexts.push_back(context);
      }
    }
    for (const auto& context : contexts) context->TryCancel();
    contexts.clear();
    base::MutexLock lock(mu_);
    while (!contexts_.empty()) removed_.Wait(mu_);
  }

 private:
  base::Mutex mu_;
  base::CondVar removed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::shared_ptr<grpc::ClientContext>> contexts_ ABSL_GUARDED_BY(mu_);
};

// A Generate RPC. Exists until gRPC has finished with it, which may be after its handle is destroyed.
class GenerateStream final : public grpc::ClientReadReactor<v1::GenerateChunk> {
 public:
  // After this, the stream owns itself. The handle shares `context` so that it can cancel the RPC.
  static void Start(v1::Rollout::Stub& stub, LiveStreams& live, v1::GenerateRequest request,
                    std::shared_ptr<grpc::ClientContext> context, std::shared_ptr<ChunkGate> gate) {
    auto* stream = new GenerateStream(live, std::move(request), std::move(context), std::move(gate));
    const std::optional<int64_t> id = live.Add(stream->context_);
    if (!id.has_value()) {
      stream->gate_->Deliver(absl::UnavailableError("the rollout client is shutting down"));
      delete stream;
      return;
    }
    stream->id_ = *id;
    stub.async()->Generate(stream->context_.get(), &stream->request_, stream);
    stream->StartRead(&stream->chunk_);
    stream->StartCall();
  }

 private:
  GenerateStream(LiveStreams& live, v1::GenerateRequest request, std::shared_ptr<grpc::ClientContext> context,
                 std::shared_ptr<ChunkGate> gate)
      : live_(live), request_(std::move(request)), context_(std::move(context)), gate_(std::move(gate)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    request_ = v1::GenerateRequest();  // the engine has read the request, which may be large
    finished_ = chunk_.finish() != v1::FINISH_UNSPECIFIED;
    gate_->Deliver(std::move(chunk_));
    chunk_ = v1::GenerateChunk();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!finished_) gate_->Deliver(ErrorOf(status));
    LiveStreams& live = live_;
    const int64_t id = id_;
    live.Forget(id);
    delete this;
    live.Remove(id);  // the client may be gone after this
  }

  absl::Status ErrorOf(const grpc::Status& status) {
    if (live_.closed()) return absl::UnavailableError("the rollout client is shutting down");
    // A stream that ends without an error and without a last chunk was cut off between the client and the engine.
    if (status.ok()) return absl::UnavailableError("the rollout engine's stream ended without a finish reason");
    return v1::FromGrpc(status);
  }

  LiveStreams& live_;
  v1::GenerateRequest request_;  // read by gRPC; empty after the first chunk
  const std::shared_ptr<grpc::ClientContext> context_;
  const std::shared_ptr<ChunkGate> gate_;
  int64_t id_ = -1;
  v1::GenerateChunk chunk_;
  bool finished_ = false;
};

class Handle final : public Client::Request {
 public:
  Handle(std::shared_ptr<grpc::ClientContext> context, std::shared_ptr<ChunkGate> gate)
      : context_(std::move(context)), gate_(std::move(gate)) {}
  ~Handle() override {
    gate_->Close();
    context_->TryCancel();
  }

 private:
  const std::shared_ptr<grpc::ClientContext> context_;
  const std::shared_ptr<ChunkGate> gate_;
};

class GrpcClient final : public Client {
 public:
  GrpcClient(v1::RoleChannel channel, GrpcClientOptions options) : options_(options), stubs_(std::move(channel)) {}
  ~GrpcClient() override { live_.CancelAllAndWait(); }

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    auto context = std::make_shared<grpc::ClientContext>();
    auto gate = std::make_shared<ChunkGate>(std::move(on_chunk));
    GenerateStream::Start(*stubs_.Now(), live_, std::move(request), context, gate);
    return std::make_unique<Handle>(std::move(context), std::move(gate));
  }

  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options_.status_deadline_ms));
    v1::EngineStatusResponse response;
    const grpc::Status status = stubs_.Now()->Status(&context, v1::EngineStatusRequest(), &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

 private:
  const GrpcClientOptions options_;
  const v1::Stubs<v1::Rollout> stubs_;
  LiveStreams live_;
};

class GrpcParking final : public Parking {
 public:
  GrpcParking(v1::RoleChannel channel, std::chrono::milliseconds timeout)
      : stubs_(std::move(channel)), timeout_(timeout) {}

  absl::StatusOr<v1::ParkResponse> Park(const v1::ParkRequest& request) override {
    return v1::CallUnary(stubs_, &v1::EngineParking::Stub::Park, request,
                         {.timeout = timeout_, .wait = false, .repeat = false});
  }
  absl::Status Resume() override {
    return v1::CallUnary(stubs_, &v1::EngineParking::Stub::Resume, v1::ResumeRequest(),
                         {.timeout = timeout_, .wait = false, .repeat = false})
        .status();
  }

 private:
  const v1::Stubs<v1::EngineParking> stubs_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace

absl::Status GrpcClientOptions::Validate() const {
  if (status_deadline_ms > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rollout.status_deadline_ms is ", status_deadline_ms, "; it must be at least 1"));
}

std::shared_ptr<Client> NewGrpcClient(v1::RoleChannel channel, GrpcClientOptions options) {
  return std::make_shared<GrpcClient>(std::move(channel), options);
}

std::shared_ptr<Parking> NewGrpcParking(v1::RoleChannel channel, std::chrono::milliseconds timeout) {
  return std::make_shared<GrpcParking>(std::move(channel), timeout);
}

}  // namespace ingot::rollout
