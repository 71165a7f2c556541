// Passes snapshot requests to the runners that own the episodes' sandboxes. Runners poll for requests because the
// gateway cannot call them.
//
//   SnapshotEpisode --Post--> request --Next--> runner --Taken--> Await returns
//   a trunk at its fork --Post--> request --Next--> runner ends the episode --Forget
//   a reader of files --Post--> request --Next--> runner sends the first part --ForgetTransfer
//
// If a snapshot is requested while a trunk is at its fork, both share one request. Await returns when the runner has
// answered the snapshot request. After that, the runner is asked to end the episode.
//
// A request without a result is resent after kResendAfter because the runner may have lost the response. Thread safe.
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

class SnapshotRequests {
 public:
  static constexpr std::chrono::seconds kResendAfter{30};

  explicit SnapshotRequests(const base::Clock& clock) : clock_(clock) {}

  // If a request with the same id is pending, only updates `ends`, which stays true once set. A request for files is
  // identified by its transfer id.
  void Post(const std::string& runner, const v1::NextSnapshotResponse& request);
  // Waits until the request is answered, and removes it. A request that ends its episode is kept and sent until the episode
  // has ended. Returns FAILED_PRECONDITION if the runner reported an error, or DEADLINE_EXCEEDED if there is no answer
  // by `deadline`.
  absl::Status Await(const std::string& snapshot_id, std::chrono::nanoseconds deadline);
  // Called on behalf of the runner. Blocks for up to `wait`. Returns nullopt if there is no request.
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
  struct Pending {
    std::string runner;
    v1::NextSnapshotResponse what;
    std::optional<std::chrono::nanoseconds> sent;  // the last time it was sent
    std::optional<std::string> answer;             // the runner's error; empty = it has the snapshot
    int waiters = 0;
  };
  // Called when nothing is waiting for the request anymore.
  void Settle(std::map<std::string, Pending>::iterator request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<v1::NextSnapshotResponse> Send(const std::string& runner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::Clock& clock_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Pending> pending_
      ABSL_GUARDED_BY(mu_);  // by transfer id if there is one, otherwise by snapshot id
};

}  // namespace ingot::gateway
