#include "agents/grpc_episodes.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::agents {
namespace {

class GrpcEpisodes final : public Episodes {
 public:
  GrpcEpisodes(std::vector<v1::RoleChannel> channels, const GrpcEpisodesOptions& options) : options_(options) {
    for (v1::RoleChannel& channel : channels) gateways_.emplace_back(std::move(channel));
  }

  absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) override {
    v1::EpisodeOpenRequest named = request;
    named.set_runner(options_.runner);
    named.set_incarnation(incarnation_);
    named.set_admin_key(options_.admin_key);
    size_t gateway = next_++ % gateways_.size();
    auto opened = Ask(gateway, named, &v1::Gateway::Stub::OpenEpisode);
    if (opened.ok() && gateways_.size() > 1) Remember(opened->episode_id(), gateway);
    return opened;
  }

  absl::Status Reward(const v1::EpisodeRewardRequest& request) override {
    size_t gateway = GatewayOf(request.episode_id());
    const auto rewarded = Ask(gateway, request, &v1::Gateway::Stub::RewardEpisode);
    if (rewarded.ok() && gateways_.size() > 1) Remember(request.episode_id(), gateway);
    return rewarded.status();
  }

  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) override {
    size_t gateway = GatewayOf(request.episode_id());
    auto read = Ask(gateway, request, &v1::Gateway::Stub::ReadMessages);
    if (read.ok() && gateways_.size() > 1) Remember(request.episode_id(), gateway);
    return read;
  }

  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) override {
    size_t gateway = GatewayOf(request.episode_id());
    auto ended = Ask(gateway, request, &v1::Gateway::Stub::EndEpisode);
    if (ended.ok()) Forget(request.episode_id());
    return ended;
  }

  // Polls the gateways in turn because each one requests snapshots of the episodes that it serves.
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) override {
    v1::NextSnapshotRequest named = request;
    named.set_runner(options_.runner);
    named.set_admin_key(options_.admin_key);
    named.set_wait_ms(request.wait_ms() / static_cast<int64_t>(gateways_.size()));
    const size_t gateway = next_listened_++ % gateways_.size();
    grpc::ClientContext context;
    SetDeadline(context, static_cast<double>(named.wait_ms()) * 1e-3);
    v1::NextSnapshotResponse response;
    INGOT_RETURN_IF_ERROR(v1::FromGrpc(gateways_[gateway].Now()->NextSnapshot(&context, named, &response)));
    if (gateways_.size() == 1 || response.episode_id().empty()) return response;
    Remember(response.episode_id(), gateway);
    base::MutexLock lock(mu_);
    if (!response.ends()) senders_[KeyOf(response.snapshot_id(), response.transfer_id())] = gateway;
    return response;
  }

  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) override {
    v1::SnapshotTakenRequest named = request;
    named.set_admin_key(options_.admin_key);
    return Report(KeyOf(request.snapshot_id(), ""), true, named, &v1::Gateway::Stub::SnapshotTaken);
  }

  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) override {
    v1::SnapshotFilesPart named = part;
    named.set_admin_key(options_.admin_key);
    const bool last = part.done() || !part.error().empty();
    return Report(KeyOf("", part.transfer_id()), last, named, &v1::Gateway::Stub::SendSnapshotFiles);
  }

 private:
  void SetDeadline(grpc::ClientContext& context, double wait_s = 0) const {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>((options_.timeout_s + wait_s) * 1e3)));
  }

  // Calls `gateway` and then the other gateways until one answers. Sets `gateway` to the one that answered.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(size_t& gateway, const Request& request,
                               grpc::Status (v1::Gateway::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                         Response*)) {
    absl::Status failed;
    for (size_t i = 0; i < gateways_.size(); ++i) {
      grpc::ClientContext context;
      SetDeadline(context);
      Response response;
      const grpc::Status status = (gateways_[gateway].Now().get()->*method)(&context, request, &response);
      if (status.ok()) return response;
      failed = v1::FromGrpc(status);
      if (!absl::IsUnavailable(failed) && !absl::IsDeadlineExceeded(failed)) return failed;
      gateway = (gateway + 1) % gateways_.size();
    }
    return failed;
  }

  // Reports to the gateway that sent the request because the others do not know it. If the request is no longer known here, for
  // example because its answer is sent twice, reports to each gateway until one accepts it. `last` is true if this is
  // the last report for the request.
  template <typename Request, typename Response>
  absl::Status Report(const std::string& key, bool last, const Request& request,
                      grpc::Status (v1::Gateway::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
    const std::optional<size_t> sender = SenderOf(key);
    absl::Status reported;
    for (size_t i = 0; i < gateways_.size(); ++i) {
      if (sender.has_value() && i != *sender) continue;
      grpc::ClientContext context;
      SetDeadline(context);
      Response response;
      const absl::Status status = v1::FromGrpc((gateways_[i].Now().get()->*method)(&context, request, &response));
      if (absl::IsNotFound(status) || (status.ok() && last)) ForgetRequest(key);
      if (status.ok()) return status;
      if (reported.ok() || !absl::IsNotFound(status)) reported = status;
    }
    return reported;
  }

  // Returns a snapshot request's key, which is its transfer id if there is one, or else its snapshot id.
  static std::string KeyOf(const std::string& snapshot_id, const std::string& transfer_id) {
    return transfer_id.empty() ? absl::StrCat("snapshot ", snapshot_id) : absl::StrCat("transfer ", transfer_id);
  }
  std::optional<size_t> SenderOf(const std::string& key) {
    base::MutexLock lock(mu_);
    const auto found = senders_.find(key);
    return found == senders_.end() ? std::nullopt : std::optional(found->second);
  }
  void ForgetRequest(const std::string& key) {
    base::MutexLock lock(mu_);
    senders_.erase(key);
  }

  size_t GatewayOf(const std::string& episode_id) {
    base::MutexLock lock(mu_);
    const auto found = opened_at_.find(episode_id);
    return found == opened_at_.end() ? 0 : found->second;
  }
  void Remember(const std::string& episode_id, size_t gateway) {
    base::MutexLock lock(mu_);
    opened_at_[episode_id] = gateway;
  }
  void Forget(const std::string& episode_id) {
    base::MutexLock lock(mu_);
    opened_at_.erase(episode_id);
  }

  std::deque<v1::Stubs<v1::Gateway>> gateways_;  // constant after the constructor
  const GrpcEpisodesOptions options_;
  std::atomic<size_t> next_{0};           // index of the next gateway to open an episode
  std::atomic<size_t> next_listened_{0};  // index of the next gateway to poll for snapshots
  base::Mutex mu_;
  std::map<std::string, size_t> opened_at_ ABSL_GUARDED_BY(mu_);  // with several gateways: by id of an open episode
  std::map<std::string, size_t> senders_ ABSL_GUARDED_BY(mu_);    // with several gateways: by unanswered request
  // Identifies this process.
  const std::string incarnation_ = absl::StrCat(getpid(), "-", base::Clock::Real().UnixNanos());
};

}  // namespace

absl::Status GrpcEpisodesOptions::Validate() const {
  if (timeout_s > 0 && timeout_s <= 1e6) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("timeout_s is ", timeout_s, ": it must be above 0 and at most 1e6 seconds"));
}

std::unique_ptr<Episodes> MakeGrpcEpisodes(std::vector<v1::RoleChannel> channels, const GrpcEpisodesOptions& options) {
  return std::make_unique<GrpcEpisodes>(std::move(channels), options);
}

}  // namespace ingot::agents
