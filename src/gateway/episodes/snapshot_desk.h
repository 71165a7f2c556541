// Passes snapshot requests ("asks") to the runners that own the episodes' sandboxes. Runners poll for asks because the
// gateway cannot call them.
//
//   SnapshotEpisode --Post--> ask --Next--> runner --Taken--> Await returns
//   a trunk at its fork --Post--> ask --Next--> runner ends the episode --Forget
//   a reader of files --Post--> ask --Next--> runner sends the first part --ForgetTransfer
//
// If a snapshot is requested while a trunk is at its fork, both share one ask. Await returns when the runner has
// answered the snapshot request. The runner is then asked to end the episode.
//
// An ask without a result is resent after kGiveAgainAfter because the runner may have lost the response. Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class SnapshotDesk {
 public:
  static constexpr std::chrono::seconds kGiveAgainAfter{30};

  explicit SnapshotDesk(const base::Clock& clock) : clock_(clock) {}

  // If an ask with the same id is pending, only updates `ends`, which stays true once set. An ask for files is
  // identified by its transfer id.
  void Post(const std::string& runner, const v1::NextSnapshotResponse& ask);
  // Waits until the ask is answered, and removes it. An ask that ends its episode is kept and sent until the episode
  // has ended. Returns FAILED_PRECONDITION if the runner reported an error, or DEADLINE_EXCEEDED if there is no answer
  // by `deadline`.
  absl::Status Await(const std::string& snapshot_id, std::chrono::nanoseconds deadline);
  // Called on behalf of the runner. Blocks for up to `wait`. Returns nullopt if there is no ask.
  std::optional<v1::NextSnapshotResponse> Next(const std::string& runner, std::chrono::nanoseconds wait);
  // Returns NOT_FOUND if the snapshot is no longer needed.
  absl::Status Taken(const v1::SnapshotTakenRequest& taken);
  // Called when the runner sends the files, or when their reader is gone.
  void ForgetTransfer(const std::string& transfer_id);
  // Called when the episode has ended.
  void Forget(const std::string& episode_id);
  // Makes all current and future waits return.
  void Close();

 private:
  struct Ask {
    std::string runner;
    v1::NextSnapshotResponse what;
    std::optional<std::chrono::nanoseconds> given;  // the last time it was sent
    std::optional<std::string> answer;              // the runner's error; empty = it has the snapshot
    int waiters = 0;
  };
  // Called when nothing is waiting for the ask anymore.
  void Settle(std::map<std::string, Ask>::iterator ask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<v1::NextSnapshotResponse> Give(const std::string& runner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::Clock& clock_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Ask> asks_ ABSL_GUARDED_BY(mu_);  // by transfer id if there is one, otherwise by snapshot id
};

}  // namespace ingot::gateway
