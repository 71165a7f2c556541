// Whether the other ranks live, apart from what they do: a thread of each rank sends a beat to its peer several times
// per deadline, however long its computing takes.
//
//   rank 0  <---beats--->  rank 1        a star: rank 0 watches all, each other rank watches rank 0, which tells the
//           <---beats--->  rank 2        rest which one was lost
//
// A rank is lost when its connection ends without a goodbye (its process died: noticed at once) or when nothing came
// from it for the deadline (stopped, or its machine is gone). After that nothing is watched any more.
//
// Thread safe. No torch.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::trainer {

// UNAVAILABLE, marked: a rank of this trainer is gone. Nothing is wrong with the run, and a group that is started
// again goes on from the last checkpoint.
absl::Status RankLost(const std::string& what);
bool IsRankLost(const absl::Status& status);

struct LivenessOptions {
  int rank = 0;
  int size = 1;  // in [1, 128]
  std::string host = "127.0.0.1";
  std::chrono::milliseconds deadline{30000};       // of silence
  std::chrono::milliseconds join_timeout{120000};  // for all ranks to come
  // Called once, from the thread that watches, when a rank was lost; may end the process. May be empty.
  std::function<void(const absl::Status&)> on_lost;
};

class Liveness {
 public:
  // Rank 0: listens at a free port of options.host, then waits for the others in Accept. UNAVAILABLE: it cannot listen.
  static absl::StatusOr<std::unique_ptr<Liveness>> Listen(LivenessOptions options);
  int port() const { return port_; }
  // RankLost names a rank that did not come in time.
  absl::Status Accept();

  // Any other rank.
  static absl::StatusOr<std::unique_ptr<Liveness>> Connect(LivenessOptions options, int port);

  // Without Leave before it, this rank is lost to the others.
  ~Liveness();

  // OK while no rank was lost.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Says goodbye, so that the end of this process is no loss to the others, and watches no more.
  void Leave();

 private:
  struct Peer {
    int rank = 0;
    int fd = -1;
    std::chrono::steady_clock::time_point heard{};
  };

  explicit Liveness(LivenessOptions options);
  void StartWatching();
  void StopWatching();
  void Watch();
  void WaitForInput(std::chrono::milliseconds timeout);
  bool Read(Peer& peer);  // false: it is gone; a peer that said goodbye has no fd any more
  void Lose(int rank, const std::string& how) ABSL_LOCKS_EXCLUDED(mu_);
  void SendAll(unsigned char message);

  const LivenessOptions options_;
  int listen_fd_ = -1, wake_fd_ = -1, port_ = 0;
  std::vector<Peer> peers_;  // of the watching thread once that runs
  std::atomic<bool> stopping_{false}, goodbye_{false};
  mutable base::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace ingot::trainer
