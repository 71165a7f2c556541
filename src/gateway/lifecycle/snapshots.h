// Requests episode snapshots from runners, asks runners to end trunks at their forks, and passes snapshot files from
// runners to clients.
//
// Thread safe. Has no lock: SnapshotRequests and FileTransfers have their own, and take no other lock while holding it.
// All methods except RequestForkEnd, BreakSilentTransfers, and Close block on the pool, a runner, or calls in flight.
// Call them without holding a lock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"
#include "gateway/caller.h"
#include "gateway/core.h"
#include "gateway/episodes/snapshot_files.h"
#include "gateway/episodes/snapshot_requests.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/placement/fencing.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Snapshots {
 public:
  // All arguments must outlive this object.
  Snapshots(Core& core, SnapshotRequests& snapshot_requests, EpisodeAccess& access, Fencing& fencing)
      : core_(core),
        access_(access),
        fencing_(fencing),
        snapshot_requests_(snapshot_requests),
        transfers_(*core.parts.clock) {}

  // See the Gateway functions with the same names.
  absl::StatusOr<v1::EpisodeSnapshotResponse> SnapshotEpisode(const v1::EpisodeSnapshotRequest& request);
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request);
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request);
  absl::StatusOr<std::shared_ptr<FileTransfer>> ReadSnapshotFiles(const Caller& caller, std::function<void()> wake);
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part);

  // Asks the runner to end a trunk that has reached its fork. Does nothing for other episodes.
  void RequestForkEnd(Episode& episode);
  void BreakSilentTransfers(std::chrono::nanoseconds timeout) { transfers_.BreakSilent(timeout); }
  // Makes all current and future waits return.
  void Close();

 private:
  Core& core_;
  EpisodeAccess& access_;
  Fencing& fencing_;
  SnapshotRequests& snapshot_requests_;
  FileTransfers transfers_;
};

}  // namespace ingot::gateway
