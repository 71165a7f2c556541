// Manages a runner's snapshots. One thread polls the gateway for snapshot requests, takes the snapshots from running
// episodes' sandboxes, and ends the agents of trunks at their forks. Other threads send files from held snapshots to
// readers. Thread safe.
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
  // All arguments must outlive this object.
  Snapshots(const RunnerOptions& options, Episodes& episodes, GatewayRetry& retry, const base::Clock& clock);
  ~Snapshots();  // REQUIRES: `retry` was stopped

  // Starts polling the gateway. Must be called once.
  void Start();
  // Ends the agents of current and later episodes.
  void StopEpisodes();

  // Called when the episode starts. Snapshots of it can be taken until Leave is called.
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
  void TakeSnapshot(const v1::NextSnapshotResponse& request);
  // Returns the error to report to the gateway.
  absl::Status HoldOne(const v1::NextSnapshotResponse& request);
  // Runs SendFilesOf on another thread, or immediately reports to the reader that no thread is free.
  void PostFilesOf(const v1::NextSnapshotResponse& request);
  // Sends a held snapshot's files to a reader.
  void SendFilesOf(const v1::NextSnapshotResponse& request);

  const RunnerOptions& options_;
  Episodes& episodes_;
  GatewayRetry& retry_;
  const base::Clock& clock_;
  HeldSnapshots held_;

  base::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Live> live_ ABSL_GUARDED_BY(mu_);  // running episodes by id
  std::set<std::string> sending_ ABSL_GUARDED_BY(mu_);     // ids of transfers

  base::Executor senders_;  // threads that send files
  base::Executor taker_;    // one thread; declared last, so it ends before other members are destroyed
};

}  // namespace ingot::agents
