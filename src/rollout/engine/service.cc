#include "rollout/engine/service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "proto/grpc_status.h"
#include "proto/parking.grpc.pb.h"
#include "proto/rollout.grpc.pb.h"
#include "weights/delta.h"

namespace ingot::rollout {

namespace {

// Appends `from` to `to`, so tokens sampled during a write are sent as one message.
void Merge(v1::GenerateChunk&& from, v1::GenerateChunk* to) {
  to->mutable_token_ids()->MergeFrom(from.token_ids());
  to->mutable_logprobs()->MergeFrom(from.logprobs());
  to->mutable_routes()->append(from.routes());
  to->mutable_alternative_ids()->MergeFrom(from.alternative_ids());
  to->mutable_alternative_logprobs()->MergeFrom(from.alternative_logprobs());
  to->mutable_versions()->MergeFrom(from.versions());
  to->set_provisional(to->provisional() || from.provisional());
  *to->mutable_answer_versions() = std::move(*from.mutable_answer_versions());
  to->mutable_top_logprobs()->MergeFrom(from.top_logprobs());
  to->set_finish(from.finish());
  to->set_stop_string(from.stop_string());
  to->set_cached_tokens(from.cached_tokens());
  to->set_drafted_tokens(from.drafted_tokens());
  to->set_accepted_tokens(from.accepted_tokens());
  if (from.has_times()) *to->mutable_times() = std::move(*from.mutable_times());
  to->set_penalty_acted(from.penalty_acted());
  to->set_bias_acted(from.bias_acted());
  to->set_grammar_acted(from.grammar_acted());
}

// A Generate RPC. Holds at most one message in flight and one that collects tokens. Calls gRPC functions outside the
// lock because they may run one of this object's reactions on the same thread. Such a call is always a function's last
// action because OnDone may delete the object.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateChunk> {
 public:
  GenerateCall(Client& engine, v1::GenerateRequest request) {
    // Chunks may arrive immediately. gRPC delays operations and reactions until the method handler has returned this
    // object.
    auto handle = engine.Generate(std::move(request),
                                  [this](absl::StatusOr<v1::GenerateChunk> chunk) { OnChunk(std::move(chunk)); });
    base::MutexLock lock(mu_);
    handle_ = std::move(handle);
  }

 private:
  void OnChunk(absl::StatusOr<v1::GenerateChunk> chunk) {
    {
      base::MutexLock lock(mu_);
      if (!chunk.ok()) {
        end_ = chunk.status();
      } else {
        if (chunk->finish() != v1::FINISH_UNSPECIFIED) end_ = absl::OkStatus();
        if (gathering_.has_value()) {
          Merge(*std::move(chunk), &*gathering_);
        } else {
          gathering_ = *std::move(chunk);
        }
      }
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    {
      base::MutexLock lock(mu_);
      writing_ = false;
      if (!ok) {
        gathering_.reset();
        if (!end_.has_value()) end_ = absl::CancelledError("the client disconnected");
      }
    }
    Advance();
  }

  void OnCancel() override {
    std::unique_ptr<Client::Request> handle;
    {
      base::MutexLock lock(mu_);
      handle = std::move(handle_);
      gathering_.reset();
      end_ = absl::CancelledError("the client disconnected");
    }
    handle.reset();  // outside the lock because it waits for an OnChunk in progress
    Advance();
  }

  void OnDone() override { delete this; }

  // Starts the next possible operation: a message or the end.
  void Advance() {
    enum { kNothing, kWrite, kFinish } next = kNothing;
    grpc::Status status;
    {
      base::MutexLock lock(mu_);
      if (writing_ || finished_) return;
      if (gathering_.has_value()) {
        message_ = *std::move(gathering_);
        gathering_.reset();
        writing_ = true;
        next = kWrite;
      } else if (end_.has_value()) {
        finished_ = true;
        status = v1::ToGrpc(*end_);
        next = kFinish;
      }
    }
    if (next == kWrite) StartWrite(&message_);
    if (next == kFinish) Finish(status);
  }

  base::Mutex mu_;
  std::unique_ptr<Client::Request> handle_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::GenerateChunk> gathering_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  v1::GenerateChunk message_;  // used by gRPC while writing_
};

using BaseService =
    v1::Rollout::WithCallbackMethod_Generate<v1::Rollout::WithCallbackMethod_Status<v1::Rollout::Service>>;

class RolloutService final : public BaseService {
 public:
  RolloutService(Client& engine, std::optional<WeightReceiver> receiver)
      : engine_(engine), receiver_(std::move(receiver)) {}

  grpc::ServerWriteReactor<v1::GenerateChunk>* Generate(grpc::CallbackServerContext*,
                                                        const v1::GenerateRequest* request) override {
    // gRPC no longer reads the request but keeps it until the RPC ends. Moving it out frees a long prompt's memory.
    return new GenerateCall(engine_, std::move(*const_cast<v1::GenerateRequest*>(request)));
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::EngineStatusRequest*,
                                   v1::EngineStatusResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    absl::StatusOr<v1::EngineStatusResponse> status = engine_.Status();
    if (status.ok()) *response = *std::move(status);
    reactor->Finish(v1::ToGrpc(status.status()));
    return reactor;
  }

  grpc::Status UpdateWeights(grpc::ServerContext* context, grpc::ServerReader<v1::WeightChunk>* reader,
                             v1::UpdateWeightsResponse* response) override {
    if (!receiver_.has_value()) return Rejected();
    weights::ChunkAssembler assembler(receiver_->codec);
    v1::WeightChunk chunk;
    int64_t bytes = 0;
    std::optional<std::chrono::steady_clock::time_point> begun;  // the first message has arrived
    while (reader->Read(&chunk)) {
      if (!begun.has_value()) begun = std::chrono::steady_clock::now();
      bytes += static_cast<int64_t>(chunk.ByteSizeLong());
      if (bytes > receiver_->max_update_bytes) {
        return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            absl::StrCat("the update is larger than rollout.max_update_bytes (",
                                         receiver_->max_update_bytes, "); raise the limit if the model is that large"));
      }
      if (const absl::Status added = assembler.Add(std::move(chunk)); !added.ok()) return v1::ToGrpc(added);
      chunk = v1::WeightChunk();
    }
    absl::StatusOr<weights::EncodedDelta> delta = assembler.Finish();
    if (!delta.ok()) return v1::ToGrpc(delta.status());
    delta->fetch = std::chrono::steady_clock::now() - *begun;
    absl::StatusOr<v1::UpdateWeightsResponse> updated =
        receiver_->sink.UpdateUnless(*delta, [context] { return context->IsCancelled(); });
    if (updated.ok()) *response = *std::move(updated);
    return v1::ToGrpc(updated.status());
  }

  grpc::Status ReleaseVersion(grpc::ServerContext*, const v1::ReleaseVersionRequest* request,
                              v1::ReleaseVersionResponse*) override {
    if (!receiver_.has_value()) return Rejected();
    return v1::ToGrpc(receiver_->sink.Release(request->version()));
  }

 private:
  static grpc::Status Rejected() {
    return {grpc::StatusCode::PERMISSION_DENIED, "this server's weights are fixed: it does not accept updates"};
  }

  Client& engine_;
  const std::optional<WeightReceiver> receiver_;
};

class ParkingService final : public v1::EngineParking::Service {
 public:
  explicit ParkingService(Parking& parking) : parking_(parking) {}

  grpc::Status Park(grpc::ServerContext*, const v1::ParkRequest* request, v1::ParkResponse* response) override {
    absl::StatusOr<v1::ParkResponse> parked = parking_.Park(*request);
    if (parked.ok()) *response = *std::move(parked);
    return v1::ToGrpc(parked.status());
  }
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeRequest*, v1::ResumeResponse*) override {
    return v1::ToGrpc(parking_.Resume());
  }

 private:
  Parking& parking_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewRolloutService(Client& engine, std::optional<WeightReceiver> receiver) {
  return std::make_unique<RolloutService>(engine, std::move(receiver));
}

std::unique_ptr<grpc::Service> NewParkingService(Parking& parking) { return std::make_unique<ParkingService>(parking); }

}  // namespace ingot::rollout
