// Snapshots of episodes: asks their runners for them, asks runners to end trunks at their forks, and passes the files of
// snapshots from runners to clients.
//
// Thread safe; it has no lock: SnapshotDesk and FileTransfers have theirs, and hold no other. All methods but
// AskForFork, BreakSilentTransfers and Close block, for the pool, for a runner, or for calls in flight: call them
// without a lock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"
#include "gateway/caller.h"
#include "gateway/core.h"
#include "gateway/episodes/snapshot_desk.h"
#include "gateway/episodes/snapshot_files.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/placement/fencing.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Snapshots {
 public:
  // All outlive it.
  Snapshots(Core& core, SnapshotDesk& desk, EpisodeAccess& access, Fencing& fencing)
      : core_(core), access_(access), fencing_(fencing), desk_(desk), transfers_(*core.parts.clock) {}

  // The functions of Gateway with these names.
  absl::StatusOr<v1::EpisodeSnapshotResponse> SnapshotEpisode(const v1::EpisodeSnapshotRequest& request);
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request);
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request);
  absl::StatusOr<std::shared_ptr<FileTransfer>> ReadSnapshotFiles(const Caller& caller, std::function<void()> wake);
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part);

  // Asks the runner of a trunk that has reached its fork to end it. Does nothing for other episodes.
  void AskForFork(Episode& episode);
  void BreakSilentTransfers(std::chrono::nanoseconds timeout) { transfers_.BreakSilent(timeout); }
  // Ends all waiting, now and later.
  void Close();

 private:
  Core& core_;
  EpisodeAccess& access_;
  Fencing& fencing_;
  SnapshotDesk& desk_;
  FileTransfers transfers_;
};

}  // namespace ingot::gateway
