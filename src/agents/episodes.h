// Makes the runner's calls to the gateway, in process or over gRPC. See proto/gateway.proto. Thread safe.
#pragma once

#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::agents {

class Episodes {
 public:
  virtual ~Episodes() = default;
  virtual absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) = 0;
  virtual absl::Status Reward(const v1::EpisodeRewardRequest& request) = 0;
  virtual absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) = 0;
  virtual absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) = 0;
  // Returns the next snapshot for the runner to take. Blocks for up to wait_ms.
  virtual absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) = 0;
  virtual absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) = 0;
  // Blocks for up to a few seconds while the reader's buffer is full.
  virtual absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) = 0;
};

}  // namespace ingot::agents
