#include "rollout/grpc_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "proto/grpc_status.h"
#include "proto/rollout.grpc.pb.h"
#include "rollout/chunk_gate.h"

namespace ingot::rollout {

namespace {

// One Generate rpc. Lives until gRPC is done with it, which may be after its handle is gone.
class GenerateStream final : public grpc::ClientReadReactor<v1::GenerateChunk> {
 public:
  // The stream owns itself from here on; the handle shares `context` to cancel it.
  static void Start(std::shared_ptr<v1::Rollout::Stub> stub, const v1::GenerateRequest& request,
                    std::shared_ptr<grpc::ClientContext> context, std::shared_ptr<ChunkGate> gate) {
    auto* stream = new GenerateStream(std::move(stub), request, std::move(context), std::move(gate));
    stream->stub_->async()->Generate(stream->context_.get(), &stream->request_, stream);
    stream->StartRead(&stream->chunk_);
    stream->StartCall();
  }

 private:
  GenerateStream(std::shared_ptr<v1::Rollout::Stub> stub, const v1::GenerateRequest& request,
                 std::shared_ptr<grpc::ClientContext> context, std::shared_ptr<ChunkGate> gate)
      : stub_(std::move(stub)), request_(request), context_(std::move(context)), gate_(std::move(gate)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    finished_ = chunk_.finish() != v1::FINISH_UNSPECIFIED;
    gate_->Deliver(std::move(chunk_));
    chunk_ = v1::GenerateChunk();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!finished_) {
      // A stream that ends in good order without a last chunk was cut by something between us and the engine.
      gate_->Deliver(status.ok() ? absl::UnavailableError("the rollout engine's stream ended without a finish reason")
                                 : v1::FromGrpc(status));
    }
    delete this;
  }

  const std::shared_ptr<v1::Rollout::Stub> stub_;
  const v1::GenerateRequest request_;
  const std::shared_ptr<grpc::ClientContext> context_;
  const std::shared_ptr<ChunkGate> gate_;
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
  GrpcClient(std::shared_ptr<grpc::Channel> channel, GrpcClientOptions options)
      : options_(options), stub_(v1::Rollout::NewStub(channel)) {}

  std::unique_ptr<Request> Generate(const v1::GenerateRequest& request, OnChunk on_chunk) override {
    auto context = std::make_shared<grpc::ClientContext>();
    auto gate = std::make_shared<ChunkGate>(std::move(on_chunk));
    GenerateStream::Start(stub_, request, context, gate);
    return std::make_unique<Handle>(std::move(context), std::move(gate));
  }

  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options_.status_deadline_ms));
    v1::EngineStatusResponse response;
    const grpc::Status status = stub_->Status(&context, v1::EngineStatusRequest(), &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

 private:
  const GrpcClientOptions options_;
  const std::shared_ptr<v1::Rollout::Stub> stub_;
};

}  // namespace

absl::Status GrpcClientOptions::Validate() const {
  if (status_deadline_ms > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rollout.status_deadline_ms is ", status_deadline_ms, "; it must be at least 1"));
}

std::shared_ptr<Client> NewGrpcClient(std::shared_ptr<grpc::Channel> channel, GrpcClientOptions options) {
  return std::make_shared<GrpcClient>(std::move(channel), options);
}

}  // namespace ingot::rollout
