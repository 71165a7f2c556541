// Gateway: snapshots of episodes, trunks at their forks, and episodes that begin at a snapshot.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/recorded_calls.h"
#include "gateway/gateway.h"

namespace ingot::gateway {
namespace {

constexpr int64_t kMostWaitMs = 60'000;
constexpr std::chrono::seconds kRoomWait(5);  // for a part of files

// The calls of an episode, with those before the snapshot that it began at.
int32_t CallsOf(const v1::EpisodeTree& tree) {
  const auto begin = PlaceOfSnapshot(tree.episode().fork().snapshot_id());
  int32_t calls = begin.ok() ? begin->calls : 0;
  for (const v1::Call& call : tree.calls()) calls = std::max(calls, call.sequence() + 1);
  return calls;
}

}  // namespace

void Gateway::Prepare(const Caller& caller, const std::shared_ptr<Answer>& answer) {
  const auto episode = FindForCall(caller);  // its errors are the answer's, which finds the episode again
  if (episode.ok() && *episode != nullptr) {
    const auto resume = [this, caller, answer] {
      if (core_.workers.TryPost([this, caller, answer] { Prepare(caller, answer); }).ok()) return;
      answer->Reject(ApiError(503, "overloaded", "", "too many requests wait for a worker: try again later"));
    };
    if (!(*episode)->Pass(resume)) return AskForFork(*episode);
    if (!answer->Enter(*episode)) Leave(*episode);  // it was aborted meanwhile
  }
  answer->Prepare();
}

void Gateway::Leave(const std::shared_ptr<Episode>& episode) {
  episode->Leave();
  AskForFork(episode);
}

void Gateway::AskForFork(const std::shared_ptr<Episode>& episode) {
  const auto place = episode->TakeForkPlace();
  if (!place.has_value()) return;
  v1::NextSnapshotResponse ask;
  ask.set_episode_id(episode->id());
  ask.set_snapshot_id(SnapshotId(episode->id(), place->calls));
  ask.set_ends(true);
  snapshots_.Post(episode->record().runner(), ask);
}

absl::StatusOr<v1::EpisodeSnapshotResponse> Gateway::SnapshotEpisode(const v1::EpisodeSnapshotRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const auto episode, FindByKey(request.episode_id(), request.api_key()));
  if (episode->record().runner().empty()) {
    return ApiError(409, "no_room", "",
                    absl::StrCat("the agent of episode ", episode->id(),
                                 " was started elsewhere: Ingot holds neither its folder nor its HOME"));
  }
  if (episode->record().purpose() != v1::PURPOSE_TRAIN) {
    return ApiError(409, "no_group", "", "only training episodes can be forked");
  }
  const auto timeout = base::FromSeconds(core_.options.end_wait_s);
  const absl::StatusOr<Episode::Place> place = episode->ShutGate(timeout);
  if (!place.ok()) return Confirmed(episode, place.status());
  v1::NextSnapshotResponse ask;
  ask.set_episode_id(episode->id());
  ask.set_snapshot_id(SnapshotId(episode->id(), place->calls));
  snapshots_.Post(episode->record().runner(), ask);
  const absl::Status taken = snapshots_.Await(ask.snapshot_id(), core_.parts.clock->Now() + timeout);
  // If another gateway serves the episode, the closed gate here does not stop calls.
  const absl::Status served = CheckServed(episode);
  episode->OpenGate();
  INGOT_RETURN_IF_ERROR(served);
  if (absl::IsFailedPrecondition(taken)) {
    return ApiError(409, "no_snapshot", "", absl::StrCat("the snapshot of the episode failed: ", taken.message()));
  }
  INGOT_RETURN_IF_ERROR(taken);
  v1::EpisodeSnapshotResponse response;
  response.mutable_snapshot()->set_episode_id(episode->id());
  response.mutable_snapshot()->set_call_id(place->call_id);
  response.mutable_snapshot()->set_snapshot_id(ask.snapshot_id());
  return response;
}

bool Gateway::IsServed(const std::string& episode_id) {
  std::shared_ptr<Episode> episode;
  {
    base::MutexLock lock(mu_);
    episode = FindOpen(episode_id);
  }
  if (episode != nullptr) (void)CheckServed(episode);  // on an error the ask is sent: the end has the token
  if (episode != nullptr && !episode->taken()) return true;
  snapshots_.Forget(episode_id);
  return false;
}

absl::StatusOr<v1::NextSnapshotResponse> Gateway::NextSnapshot(const v1::NextSnapshotRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckAdmin(request.admin_key()));
  const std::chrono::milliseconds wait(std::clamp<int64_t>(request.wait_ms(), 0, kMostWaitMs));
  const auto deadline = core_.parts.clock->Now() + wait;
  while (true) {
    const auto left = std::max(deadline - core_.parts.clock->Now(), std::chrono::nanoseconds(0));
    const auto ask = snapshots_.Next(request.runner(), left);
    if (!ask.has_value()) return v1::NextSnapshotResponse();
    if (ask->transfer_id().empty() && IsServed(ask->episode_id())) return *ask;
    if (!ask->transfer_id().empty() && transfers_.Find(ask->transfer_id()) != nullptr) return *ask;
    snapshots_.ForgetTransfer(ask->transfer_id());  // its reader went away
  }
}

absl::Status Gateway::SnapshotTaken(const v1::SnapshotTakenRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckAdmin(request.admin_key()));
  return snapshots_.Taken(request);
}

absl::StatusOr<std::shared_ptr<FileTransfer>> Gateway::ReadSnapshotFiles(const Caller& caller,
                                                                         std::function<void()> wake) {
  if (caller.api_key.empty()) return ApiError(401, "invalid_api_key", "", "no API key was sent: the episode's key");
  INGOT_ASSIGN_OR_RETURN(const auto episode,
                         IsAdmin(caller.api_key) ? FindByKey(caller.episode, caller.api_key) : FindForCall(caller));
  if (episode == nullptr || !episode->record().has_fork()) {
    return ApiError(404, "no_files", "", "the episode does not start from a snapshot, so it has no snapshot files");
  }
  const v1::EpisodeFork& fork = episode->record().fork();
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree trunk, TrunkOf(fork.episode_id()));
  if (trunk.episode().runner().empty()) {
    return ApiError(409, "no_room", "",
                    "the agent of the snapshot's episode was started elsewhere, and its files are there");
  }
  INGOT_ASSIGN_OR_RETURN(auto transfer, transfers_.Open(std::move(wake)));
  v1::NextSnapshotResponse ask;
  ask.set_episode_id(episode->id());
  ask.set_snapshot_id(fork.snapshot_id());
  ask.set_transfer_id(transfer->id());
  snapshots_.Post(trunk.episode().runner(), ask);
  return transfer;
}

absl::Status Gateway::SendSnapshotFiles(const v1::SnapshotFilesPart& part) {
  INGOT_RETURN_IF_ERROR(CheckAdmin(part.admin_key()));
  const auto transfer = transfers_.Find(part.transfer_id());
  snapshots_.ForgetTransfer(part.transfer_id());
  if (transfer == nullptr) return absl::NotFoundError("the reader of these files is gone");
  return transfer->Put(part, kRoomWait);
}

absl::StatusOr<v1::EpisodeTree> Gateway::TrunkOf(const std::string& episode_id) {
  if (core_.parts.pool == nullptr) return absl::FailedPreconditionError("this gateway has no pool");
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode_id);
  get.set_with_calls(true);
  return core_.parts.pool->GetEpisode(get);
}

absl::Status Gateway::AskAsFork(const std::string& snapshot_id, v1::Episode& record, v1::AdmitRequest& ask) {
  const auto place = PlaceOfSnapshot(snapshot_id);
  if (!place.ok()) return BadRequest("from_snapshot", std::string(place.status().message()));
  const auto not_found = [](const std::string& why) {
    return ApiError(404, "snapshot_not_found", "from_snapshot", why);
  };
  const auto trunk = TrunkOf(place->episode_id);
  if (absl::IsNotFound(trunk.status()) || absl::IsFailedPrecondition(trunk.status())) {
    return not_found(absl::StrCat("no episode of this run has the snapshot ", snapshot_id));
  }
  INGOT_RETURN_IF_ERROR(trunk.status());
  if (trunk->episode().runner().empty()) {
    return not_found(absl::StrCat("episode ", place->episode_id,
                                  " has no snapshots: its agent was started elsewhere, and its files are there"));
  }
  if (const int32_t calls = CallsOf(*trunk); place->calls > calls) {
    return not_found(absl::StrCat("there is no snapshot ", snapshot_id, ": the episode has made ", calls, " calls"));
  }
  if (trunk->episode().purpose() != v1::PURPOSE_TRAIN) {
    return ApiError(409, "no_group", "from_snapshot", "only training episodes have a group that others can join");
  }
  *record.mutable_fork() = ForkOf(*trunk, place->calls);
  ask.clear_task();
  ask.set_sample_of(trunk->episode().ref().group_id());
  return absl::OkStatus();
}

absl::StatusOr<Episode::EarlierCalls> Gateway::JoinTrunk(v1::Episode& record) {
  if (!record.has_fork()) return Episode::EarlierCalls();
  if (record.fork().snapshot_id().empty()) {  // the scheduler names only the trunk
    INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree trunk, TrunkOf(record.fork().episode_id()));
    *record.mutable_fork() = ForkOf(trunk, std::nullopt);
  }
  v1::EpisodeTree tree;
  *tree.mutable_episode() = record;
  return EarlierCallsOf(*core_.parts.pool, tree);
}

}  // namespace ingot::gateway
