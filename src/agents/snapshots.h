// The snapshots of a runner. A thread asks the gateway which snapshots to take, takes them from the sandboxes of
// running episodes, and ends the agents of trunks at their forks. Other threads send held snapshots' files to readers.
// Thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agents/episodes.h"
#include "agents/gateway_retry.h"
#include "agents/held_snapshots.h"
#include "agents/live_episode.h"
#include "agents/options.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::agents {

class Snapshots {
 public:
  // All arguments outlive it.
  Snapshots(const RunnerOptions& options, Episodes& episodes, GatewayRetry& retry, const base::Clock& clock);
  ~Snapshots();  // REQUIRES: the GatewayRetry is stopped

  // Starts to ask the gateway. To be called once.
  void Start();
  // Ends the agents of running and later episodes.
  void StopEpisodes();

  // The episode runs from here on, until Leave: snapshots of it may be taken.
  std::shared_ptr<LiveEpisode> Enter(const v1::EpisodeOpenResponse& episode);
  void Leave(const v1::EpisodeOpenResponse& episode);

  HeldSnapshots& held() { return held_; }
  const HeldSnapshots& held() const { return held_; }

 private:
  struct Live {
    std::shared_ptr<LiveEpisode> episode;
    int64_t group_id = 0;
  };

  void TakeAll();
  void TakeSnapshot(const v1::NextSnapshotResponse& ask);
  // The error to report to the gateway.
  absl::Status HoldOne(const v1::NextSnapshotResponse& ask);
  // Runs SendFilesOf on another thread, or tells the reader at once that none is free.
  void PostFilesOf(const v1::NextSnapshotResponse& ask);
  // For a reader of a snapshot that is held.
  void SendFilesOf(const v1::NextSnapshotResponse& ask);

  const RunnerOptions& options_;
  Episodes& episodes_;
  GatewayRetry& retry_;
  const base::Clock& clock_;
  HeldSnapshots held_;

  base::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Live> live_ ABSL_GUARDED_BY(mu_);  // running episodes by id
  std::set<std::string> sending_ ABSL_GUARDED_BY(mu_);     // ids of transfers

  base::Executor senders_;  // of files
  base::Executor taker_;    // one thread; last: it ends before the rest goes
};

}  // namespace ingot::agents
