// Detects whether the other ranks are alive, independently of their progress. A thread on each rank sends a heartbeat
// to its peers several times per deadline, no matter how long the rank computes.
//
//   rank 0  <---beats--->  rank 1        a star: rank 0 watches all other ranks, each of them watches rank 0,
//           <---beats--->  rank 2        and rank 0 reports a lost rank to the rest
//
// A rank is lost if its connection closes without a goodbye, because its process died. This is detected immediately. It
// is also lost if no heartbeat arrives within the deadline, because it was suspended or its machine is gone. Watching
// ends after a loss.
//
// Thread safe. Does not use torch. Watching is one long task. It waits in poll(2) for at most a tenth of the deadline
// and at most 1 s, and measures silence on the injected clock.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::trainer {

// Returns an UNAVAILABLE status that marks a rank of this trainer as lost. The run itself is intact: a restarted group
// continues from the last checkpoint.
absl::Status RankLost(const std::string& what);
bool IsRankLost(const absl::Status& status);

struct LivenessOptions {
  int rank = 0;
  int size = 1;  // in [1, 128]
  std::string host = "127.0.0.1";
  std::string secret;                              // the same on all ranks; sent first on each connection
  std::chrono::milliseconds deadline{30000};       // maximum time without a heartbeat
  std::chrono::milliseconds join_timeout{120000};  // maximum time for all ranks to connect
  // Called once, on the watching thread, when a rank is lost. May end the process. Empty = no callback.
  std::function<void(const absl::Status&)> on_lost;
  const base::Clock* clock = &base::Clock::Real();  // must outlive the Liveness
};

class Liveness {
 public:
  // For rank 0. Listens on a free port at options.host. Accept then waits for the others. Returns UNAVAILABLE if it
  // cannot listen.
  static absl::StatusOr<std::unique_ptr<Liveness>> Listen(LivenessOptions options);
  int port() const { return port_; }
  // Waits until all other ranks are connected. Returns a RankLost error with the rank that did not connect in time.
  absl::Status Accept();

  // For all other ranks.
  static absl::StatusOr<std::unique_ptr<Liveness>> Connect(LivenessOptions options, int port);

  // Unless Leave was called first, the others count this rank as lost.
  ~Liveness();

  // Returns OK if no rank has been lost.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Stops watching and announces that this process is leaving, so the others do not count its exit as a loss.
  void Leave();

 private:
  struct Peer {
    int rank = 0;
    int fd = -1;
    std::chrono::nanoseconds heard{0};  // time of the peer's last message
  };

  explicit Liveness(LivenessOptions options);
  void StartWatching();
  void StopWatching();
  void Watch();
  void WaitForInput(std::chrono::milliseconds timeout);
  // Returns false if the peer, or a rank that it reports, is lost. Closes the fd of a peer that sent a goodbye.
  bool Read(Peer& peer);
  void Lose(int rank, const std::string& how) ABSL_LOCKS_EXCLUDED(mu_);
  void SendAll(unsigned char message);

  const LivenessOptions options_;
  int listen_fd_ = -1, wake_fd_ = -1, port_ = 0;
  std::vector<Peer> peers_;  // owned by the watching thread while it runs
  std::atomic<bool> stopping_{false}, goodbye_{false};
  mutable base::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  base::Executor thread_;  // the watching thread
};

}  // namespace ingot::trainer
