#include "weights/grpc_sink.h"

#include <utility>

#include "proto/grpc_status.h"
#include "proto/rollout.grpc.pb.h"

namespace ingot::weights {
namespace {

class GrpcSink final : public Sink {
 public:
  GrpcSink(v1::RoleChannel channel, GrpcSinkOptions options) : options_(options), stubs_(std::move(channel)) {}

  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    grpc::ClientContext context;
    SetDeadline(context, options_.deadline);
    v1::UpdateWeightsResponse response;
    const auto stub = stubs_.Now();
    const std::unique_ptr<grpc::ClientWriter<v1::WeightChunk>> writer = stub->UpdateWeights(&context, &response);
    // After a failed Write, the engine has already answered. Finish returns the reason.
    ToChunks(delta, options_.chunk_bytes, [&](const v1::WeightChunk& chunk) { return writer->Write(chunk); });
    writer->WritesDone();
    if (const grpc::Status status = writer->Finish(); !status.ok()) return v1::FromGrpc(status);
    return response;
  }

  absl::Status Release(int64_t version) override {
    grpc::ClientContext context;
    SetDeadline(context, options_.deadline);
    v1::ReleaseVersionRequest request;
    request.set_version(version);
    v1::ReleaseVersionResponse response;
    return v1::FromGrpc(stubs_.Now()->ReleaseVersion(&context, request, &response));
  }

  absl::StatusOr<int64_t> LiveVersion() override {
    INGOT_ASSIGN_OR_RETURN(const v1::EngineStatusResponse status, Status());
    return status.version();
  }

  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override {
    INGOT_ASSIGN_OR_RETURN(const v1::EngineStatusResponse status, Status());
    std::vector<HeldVersion> held;
    for (int i = 0; i < status.held_versions_size(); ++i) {
      held.push_back({status.held_versions(i), i < status.held_checksums_size() ? status.held_checksums(i) : 0});
    }
    return held;
  }

 private:
  absl::StatusOr<v1::EngineStatusResponse> Status() {
    grpc::ClientContext context;
    SetDeadline(context, options_.status_deadline);
    v1::EngineStatusResponse response;
    const grpc::Status status = stubs_.Now()->Status(&context, v1::EngineStatusRequest(), &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

  static void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds deadline) {
    context.set_deadline(std::chrono::system_clock::now() + deadline);
  }

  const GrpcSinkOptions options_;
  const v1::Stubs<v1::Rollout> stubs_;
};

}  // namespace

absl::Status GrpcSinkOptions::Validate() const {
  for (const auto& [name, limit] : {std::pair("deadline", deadline), {"status_deadline", status_deadline}}) {
    if (limit.count() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", limit.count(), " ms: must be > 0"));
    }
  }
  if (chunk_bytes < 1 || chunk_bytes > 4000000) {
    return absl::InvalidArgumentError(absl::StrCat("chunk_bytes is ", chunk_bytes, ": 1 to 4000000"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Sink>> NewGrpcSink(v1::RoleChannel channel, GrpcSinkOptions options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  return std::make_unique<GrpcSink>(std::move(channel), options);
}

}  // namespace ingot::weights
