// The SnapshotDesk passes snapshot requests ("asks") to the runners that hold the episodes' sandboxes. The gateway does
// not call runners; runners poll for asks.
//
//   SnapshotEpisode --Post--> ask --Next--> runner --Taken--> Await returns
//   a trunk at its fork --Post--> ask --Next--> runner ends the episode --Forget
//   a reader of files --Post--> ask --Next--> runner sends the first part --ForgetTransfer
//
// A snapshot may be requested while a trunk is at its fork: then both are one ask. The runner's answer to the snapshot
// lets Await return, and the runner is asked to end the episode afterwards.
//
// An ask is given out again after kGiveAgainAfter without a result: the runner may have lost the response. Thread safe.
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

  // An ask with the id of a pending ask changes only `ends`, which stays once set. An ask for files has the id of its
  // transfer.
  void Post(const std::string& runner, const v1::NextSnapshotResponse& ask);
  // Waits until the ask is answered and removes it; an ask that ends its episode stays, and is given out until the
  // episode has ended. FAILED_PRECONDITION: the runner's error. DEADLINE_EXCEEDED: the runner did not answer by
  // `deadline`.
  absl::Status Await(const std::string& snapshot_id, std::chrono::nanoseconds deadline);
  // For the runner. Blocks for at most `wait`; nullopt = no ask.
  std::optional<v1::NextSnapshotResponse> Next(const std::string& runner, std::chrono::nanoseconds wait);
  // NOT_FOUND: the snapshot is no longer needed.
  absl::Status Taken(const v1::SnapshotTakenRequest& taken);
  // The runner sends the files, or their reader is gone.
  void ForgetTransfer(const std::string& transfer_id);
  // The episode has ended.
  void Forget(const std::string& episode_id);
  // Ends all waiting, now and later.
  void Close();

 private:
  struct Ask {
    std::string runner;
    v1::NextSnapshotResponse what;
    std::optional<std::chrono::nanoseconds> given;  // the last time
    std::optional<std::string> answer;              // the runner's error; empty = it holds the snapshot
    int waiters = 0;
  };
  // The last waiter for the ask is gone.
  void Settle(std::map<std::string, Ask>::iterator ask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<v1::NextSnapshotResponse> Give(const std::string& runner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::Clock& clock_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Ask> asks_ ABSL_GUARDED_BY(mu_);  // by transfer id, else by snapshot id
};

}  // namespace ingot::gateway
