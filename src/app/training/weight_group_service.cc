#include "app/training/weight_group_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/mutex.h"
#include "base/random.h"
#include "proto/grpc_status.h"
#include "proto/weight_group.grpc.pb.h"
#include "weights/stores/version_layout.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using trainer::WeightGroup;
using trainer::WeightGroupOptions;

class Service final : public v1::WeightGroup::Service {
 public:
  Service(weights::Sink& engine, const weights::CodecOptions& codec, WeightGroupSeat seat)
      : engine_(engine), codec_(codec), seat_(std::move(seat)) {}

  grpc::Status Join(grpc::ServerContext*, const v1::JoinWeightGroupRequest* request,
                    v1::JoinWeightGroupResponse*) override {
    return v1::ToGrpc(JoinGroup(*request));
  }

  grpc::Status Receive(grpc::ServerContext*, const v1::ReceiveWeightsRequest* request,
                       v1::UpdateWeightsResponse* response) override {
    absl::StatusOr<weights::EncodedDelta> delta = ReceiveDelta(*request);
    if (!delta.ok()) return v1::ToGrpc(delta.status());
    absl::StatusOr<v1::UpdateWeightsResponse> updated = engine_.Update(*delta);
    if (updated.ok()) *response = *std::move(updated);
    return v1::ToGrpc(updated.status());
  }

 private:
  absl::Status JoinGroup(const v1::JoinWeightGroupRequest& request) {
    if (request.on_devices() && seat_.nccl == nullptr) {
      return absl::FailedPreconditionError(
          "the trainer broadcasts between devices, but this engine computes on the CPU");
    }
    WeightGroupOptions options;
    options.rank = request.rank();
    options.size = request.size();
    options.host = request.host();
    options.port = request.port();
    options.own_host = seat_.own_host;
    options.secret = request.secret();
    options.timeout = milliseconds(request.timeout_ms());
    if (request.on_devices()) {
      options.device = seat_.device;
      options.nccl = seat_.nccl;
    }
    INGOT_ASSIGN_OR_RETURN(std::shared_ptr<WeightGroup> group, WeightGroup::Make(std::move(options)));
    INGOT_RETURN_IF_ERROR(group->Connect());
    base::MutexLock lock(mu_);
    name_ = request.group();
    std::swap(group_, group);  // the previous group is destroyed once no thread waits in it
    return absl::OkStatus();
  }

  absl::StatusOr<weights::EncodedDelta> ReceiveDelta(const v1::ReceiveWeightsRequest& request) {
    std::shared_ptr<WeightGroup> group;
    {
      base::MutexLock lock(mu_);
      if (name_ == request.group()) group = group_;
    }
    if (group == nullptr) return absl::AbortedError("this engine is not in the group");
    weights::ChunkAssembler assembler(codec_);
    v1::WeightChunk header;
    *header.mutable_header() = request.header();
    const absl::Status fits = assembler.Add(std::move(header));
    // The other ranks' exchange needs this rank even if it will reject the version. An impossible size is rejected
    // first.
    if (request.bytes() < 0 || request.bytes() > 2 * codec_.max_bytes + (1 << 20)) {
      return absl::AbortedError("the broadcast is larger than the model");
    }
    std::string bytes(static_cast<size_t>(request.bytes()), '\0');
    INGOT_RETURN_IF_ERROR(group->Broadcast(bytes));
    INGOT_RETURN_IF_ERROR(fits);
    INGOT_RETURN_IF_ERROR(weights::AddPayloads(request.tensors(), 0, request.tensors_size(), bytes, &assembler));
    return assembler.Finish();
  }

  weights::Sink& engine_;
  const weights::CodecOptions codec_;
  const WeightGroupSeat seat_;
  base::Mutex mu_;
  std::string name_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<WeightGroup> group_ ABSL_GUARDED_BY(mu_);
};

class Member final : public weights::BroadcastMember {
 public:
  Member(v1::RoleChannel channel, milliseconds deadline) : stubs_(std::move(channel)), deadline_(deadline) {}

  absl::Status Join(const v1::JoinWeightGroupRequest& request) override {
    grpc::ClientContext context;
    // The engine's own limit applies first.
    SetDeadline(context, milliseconds(request.timeout_ms()) * 2);
    v1::JoinWeightGroupResponse response;
    return v1::FromGrpc(stubs_.Now()->Join(&context, request, &response));
  }

  absl::StatusOr<v1::UpdateWeightsResponse> Receive(const v1::ReceiveWeightsRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context, deadline_);
    v1::UpdateWeightsResponse response;
    const grpc::Status status = stubs_.Now()->Receive(&context, request, &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

 private:
  static void SetDeadline(grpc::ClientContext& context, milliseconds deadline) {
    context.set_deadline(std::chrono::system_clock::now() + deadline);
  }

  const v1::Stubs<v1::WeightGroup> stubs_;
  const milliseconds deadline_;
};

class Root final : public weights::BroadcastRoot {
 public:
  explicit Root(std::unique_ptr<WeightGroup> group) : group_(std::move(group)) {}

  v1::JoinWeightGroupRequest Place() const override {
    const WeightGroupOptions& options = group_->options();
    v1::JoinWeightGroupRequest place;
    place.set_host(options.host);
    place.set_port(options.port);
    place.set_secret(options.secret);
    place.set_timeout_ms(options.timeout.count());
    place.set_on_devices(options.nccl != nullptr);
    return place;
  }
  absl::Status Connect() override { return group_->Connect(); }
  absl::Status Broadcast(std::string_view bytes) override {
    // The root's bytes are not modified.
    return group_->Broadcast(std::span<char>(const_cast<char*>(bytes.data()), bytes.size()));
  }
  void Abort() override { group_->Abort(); }

 private:
  const std::unique_ptr<WeightGroup> group_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWeightGroupService(weights::Sink& engine, const weights::CodecOptions& codec,
                                                     WeightGroupSeat seat) {
  return std::make_unique<Service>(engine, codec, std::move(seat));
}

std::shared_ptr<weights::BroadcastMember> NewWeightGroupMember(v1::RoleChannel channel, milliseconds deadline) {
  return std::make_shared<Member>(std::move(channel), deadline);
}

weights::BroadcastSet::MakeRoot NewWeightGroupRoots(WeightGroupSeat seat, milliseconds deadline) {
  return [seat = std::move(seat), deadline](int size) -> absl::StatusOr<std::shared_ptr<weights::BroadcastRoot>> {
    WeightGroupOptions options;
    options.size = size;
    options.host = seat.own_host;
    options.own_host = seat.own_host;
    options.secret = base::RandomHex(16);
    options.timeout = std::max(deadline / 3, milliseconds(1));
    options.device = seat.device;
    options.nccl = seat.nccl;
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<WeightGroup> group, WeightGroup::Make(std::move(options)));
    return std::make_shared<Root>(std::move(group));
  };
}

}  // namespace ingot::app
