// Liveness watches whether the other ranks are alive, independent of their progress. A thread of each rank sends a beat
// to its peer several times per deadline, however long the rank computes.
//
//   rank 0  <---beats--->  rank 1        a star: rank 0 watches all, and each other rank watches rank 0, which
//           <---beats--->  rank 2        reports a lost rank to the rest
//
// A rank is lost when its connection ends without a goodbye: its process died, which is noticed at once. It is also
// lost when none of its beats arrived within the deadline: it was stopped, or its machine is gone. The watch ends after
// a loss.
//
// Thread safe. No torch. The watch is one long task: it waits in poll(2) for the sockets, at most a tenth of the
// deadline at a time and at most 1 s, and counts silence on the injected clock.
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

// UNAVAILABLE with a mark: a rank of this trainer is gone. The run itself is intact: a restarted group continues from
// the last checkpoint.
absl::Status RankLost(const std::string& what);
bool IsRankLost(const absl::Status& status);

struct LivenessOptions {
  int rank = 0;
  int size = 1;  // in [1, 128]
  std::string host = "127.0.0.1";
  std::string secret;                              // the same on all ranks; a connection begins with it
  std::chrono::milliseconds deadline{30000};       // of silence
  std::chrono::milliseconds join_timeout{120000};  // for all ranks to connect
  // Called once, from the watching thread, when a rank was lost; may end the process. Empty = no callback.
  std::function<void(const absl::Status&)> on_lost;
  const base::Clock* clock = &base::Clock::Real();  // outlives the Liveness
};

class Liveness {
 public:
  // For rank 0: listens at a free port of options.host; Accept then waits for the others. UNAVAILABLE: it cannot
  // listen.
  static absl::StatusOr<std::unique_ptr<Liveness>> Listen(LivenessOptions options);
  int port() const { return port_; }
  // RankLost names a rank that did not connect in time.
  absl::Status Accept();

  // For any other rank.
  static absl::StatusOr<std::unique_ptr<Liveness>> Connect(LivenessOptions options, int port);

  // Without a Leave before it, the others count this rank as lost.
  ~Liveness();

  // OK while no rank was lost.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Says goodbye, so that the others do not count the end of this process as a loss, and ends the watch.
  void Leave();

 private:
  struct Peer {
    int rank = 0;
    int fd = -1;
    std::chrono::nanoseconds heard{0};  // the time of its last message
  };

  explicit Liveness(LivenessOptions options);
  void StartWatching();
  void StopWatching();
  void Watch();
  void WaitForInput(std::chrono::milliseconds timeout);
  // False = the peer, or a rank that it names, is lost. A peer that said goodbye has no fd afterwards.
  bool Read(Peer& peer);
  void Lose(int rank, const std::string& how) ABSL_LOCKS_EXCLUDED(mu_);
  void SendAll(unsigned char message);

  const LivenessOptions options_;
  int listen_fd_ = -1, wake_fd_ = -1, port_ = 0;
  std::vector<Peer> peers_;  // the watching thread's while it runs
  std::atomic<bool> stopping_{false}, goodbye_{false};
  mutable base::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  base::Executor thread_;  // one thread, which watches
};

}  // namespace ingot::trainer
