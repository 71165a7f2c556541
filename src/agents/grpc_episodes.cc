#include "agents/grpc_episodes.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::agents {
namespace {

class GrpcEpisodes final : public Episodes {
 public:
  GrpcEpisodes(v1::RoleChannel channel, const GrpcEpisodesOptions& options)
      : stubs_(std::move(channel)), options_(options) {}

  absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::EpisodeOpenRequest named = request;
    named.set_runner(options_.runner);
    named.set_incarnation(incarnation_);
    named.set_admin_key(options_.admin_key);
    v1::EpisodeOpenResponse response;
    const grpc::Status status = stubs_.Now()->OpenEpisode(&context, named, &response);
    if (!status.ok()) return v1::FromGrpc(status);
    return response;
  }

  absl::Status Reward(const v1::EpisodeRewardRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::EpisodeRewardResponse response;
    return v1::FromGrpc(stubs_.Now()->RewardEpisode(&context, request, &response));
  }

  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::EpisodeEndResponse response;
    INGOT_RETURN_IF_ERROR(v1::FromGrpc(stubs_.Now()->EndEpisode(&context, request, &response)));
    return response;
  }

  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context, static_cast<double>(request.wait_ms()) * 1e-3);
    v1::NextSnapshotRequest named = request;
    named.set_runner(options_.runner);
    named.set_admin_key(options_.admin_key);
    v1::NextSnapshotResponse response;
    INGOT_RETURN_IF_ERROR(v1::FromGrpc(stubs_.Now()->NextSnapshot(&context, named, &response)));
    return response;
  }

  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) override {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::SnapshotTakenRequest named = request;
    named.set_admin_key(options_.admin_key);
    v1::SnapshotTakenResponse response;
    return v1::FromGrpc(stubs_.Now()->SnapshotTaken(&context, named, &response));
  }

 private:
  void SetDeadline(grpc::ClientContext& context, double wait_s = 0) const {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>((options_.timeout_s + wait_s) * 1e3)));
  }

  const v1::Stubs<v1::Gateway> stubs_;
  const GrpcEpisodesOptions options_;
  const std::string incarnation_ = absl::StrCat(getpid(), "-", base::Clock::Real().UnixNanos());  // this process
};

}  // namespace

absl::Status GrpcEpisodesOptions::Validate() const {
  if (timeout_s > 0 && timeout_s <= 1e6) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("timeout_s is ", timeout_s, ": seconds above 0 (and at most 1e6)"));
}

std::unique_ptr<Episodes> MakeGrpcEpisodes(v1::RoleChannel channel, const GrpcEpisodesOptions& options) {
  return std::make_unique<GrpcEpisodes>(std::move(channel), options);
}

}  // namespace ingot::agents
