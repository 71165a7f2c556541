#include "gateway/lifecycle/snapshots.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/recorded_calls.h"
#include "gateway/lifecycle/trunks.h"

namespace ingot::gateway {
namespace {

constexpr int64_t kMaxWaitMs = 60'000;
constexpr std::chrono::seconds kRoomWait(5);  // how long a part waits for buffer space

}  // namespace

void Snapshots::RequestForkEnd(Episode& episode) {
  const auto place = episode.TakeForkPlace();
  if (!place.has_value()) return;
  v1::NextSnapshotResponse wanted;
  wanted.set_episode_id(episode.id());
  wanted.set_snapshot_id(SnapshotId(episode.id(), place->calls));
  wanted.set_ends(true);
  snapshot_requests_.Post(episode.record().runner(), wanted);
}

absl::StatusOr<v1::EpisodeSnapshotResponse> Snapshots::SnapshotEpisode(const v1::EpisodeSnapshotRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const auto episode, access_.FindByKey(request.episode_id(), request.api_key()));
  if (episode->record().runner().empty()) {
    return ApiError(409, "no_room", "",
                    absl::StrCat("the agent of episode ", episode->id(),
                                 " was started elsewhere, so Ingot has neither its folder nor its HOME"));
  }
  if (episode->record().purpose() != v1::PURPOSE_TRAIN) {
    return ApiError(409, "no_group", "", "only training episodes can be forked");
  }
  const auto timeout = base::FromSeconds(core_.options.end_wait_s);
  const absl::StatusOr<Episode::Place> place = episode->ShutGate(timeout);
  if (!place.ok()) return fencing_.Confirmed(episode, place.status());
  v1::NextSnapshotResponse wanted;
  wanted.set_episode_id(episode->id());
  wanted.set_snapshot_id(SnapshotId(episode->id(), place->calls));
  snapshot_requests_.Post(episode->record().runner(), wanted);
  const absl::Status taken = snapshot_requests_.Await(wanted.snapshot_id(), core_.parts.clock->Now() + timeout);
  // If another gateway serves the episode, this gateway's closed gate does not stop calls.
  const absl::Status served = fencing_.CheckServed(episode);
  episode->OpenGate();
  INGOT_RETURN_IF_ERROR(served);
  if (absl::IsFailedPrecondition(taken)) {
    return ApiError(409, "no_snapshot", "", absl::StrCat("the episode's snapshot failed: ", taken.message()));
  }
  INGOT_RETURN_IF_ERROR(taken);
  v1::EpisodeSnapshotResponse response;
  response.mutable_snapshot()->set_episode_id(episode->id());
  response.mutable_snapshot()->set_call_id(place->call_id);
  response.mutable_snapshot()->set_snapshot_id(wanted.snapshot_id());
  return response;
}

absl::StatusOr<v1::NextSnapshotResponse> Snapshots::NextSnapshot(const v1::NextSnapshotRequest& request) {
  INGOT_RETURN_IF_ERROR(core_.admin_key.Check(request.admin_key()));
  const std::chrono::milliseconds wait(std::clamp<int64_t>(request.wait_ms(), 0, kMaxWaitMs));
  const auto deadline = core_.parts.clock->Now() + wait;
  while (true) {
    const auto left = std::max(deadline - core_.parts.clock->Now(), std::chrono::nanoseconds(0));
    const auto wanted = snapshot_requests_.Next(request.runner(), left);
    if (!wanted.has_value()) return v1::NextSnapshotResponse();
    if (wanted->transfer_id().empty() && fencing_.IsServed(wanted->episode_id())) return *wanted;
    if (!wanted->transfer_id().empty() && transfers_.Find(wanted->transfer_id()) != nullptr) return *wanted;
    snapshot_requests_.ForgetTransfer(wanted->transfer_id());  // its reader disconnected
  }
}

absl::Status Snapshots::SnapshotTaken(const v1::SnapshotTakenRequest& request) {
  INGOT_RETURN_IF_ERROR(core_.admin_key.Check(request.admin_key()));
  return snapshot_requests_.Taken(request);
}

absl::StatusOr<std::shared_ptr<FileTransfer>> Snapshots::ReadSnapshotFiles(const Caller& caller,
                                                                           std::function<void()> wake) {
  if (caller.api_key.empty()) return ApiError(401, "invalid_api_key", "", "no API key was sent: the episode's key");
  INGOT_ASSIGN_OR_RETURN(const auto episode, core_.admin_key.Is(caller.api_key)
                                                 ? access_.FindByKey(caller.episode, caller.api_key)
                                                 : access_.FindForCall(caller));
  if (episode == nullptr || !episode->record().has_fork()) {
    return ApiError(404, "no_files", "", "the episode does not start from a snapshot, so it has no snapshot files");
  }
  const v1::EpisodeFork& fork = episode->record().fork();
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree trunk, ReadTrunk(core_.parts.pool, fork.episode_id()));
  if (trunk.episode().runner().empty()) {
    return ApiError(409, "no_room", "",
                    "the agent of the snapshot's episode was started elsewhere, and its files are there");
  }
  INGOT_ASSIGN_OR_RETURN(auto transfer, transfers_.Open(std::move(wake)));
  v1::NextSnapshotResponse wanted;
  wanted.set_episode_id(episode->id());
  wanted.set_snapshot_id(fork.snapshot_id());
  wanted.set_transfer_id(transfer->id());
  snapshot_requests_.Post(trunk.episode().runner(), wanted);
  return transfer;
}

absl::Status Snapshots::SendSnapshotFiles(const v1::SnapshotFilesPart& part) {
  INGOT_RETURN_IF_ERROR(core_.admin_key.Check(part.admin_key()));
  const auto transfer = transfers_.Find(part.transfer_id());
  snapshot_requests_.ForgetTransfer(part.transfer_id());
  if (transfer == nullptr) return absl::NotFoundError("the client that requested these files disconnected");
  return transfer->Put(part, kRoomWait);
}

void Snapshots::Close() {
  snapshot_requests_.Close();
  transfers_.Close();
}

}  // namespace ingot::gateway
