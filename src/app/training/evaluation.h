// Evaluates a run's versions. Decides which ones are due, starts their evaluations on the scheduler, and collects the
// results. Called on the training thread between steps. Only Finish and Resume block.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/run/persist.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "scheduler/client.h"
#include "weights/publisher.h"

namespace ingot::app {

class Evaluations {
 public:
  // Reads the held-out tasks of all sets in name order. If there are none, no version is ever due. Runs at most `most`
  // evaluations at a time, not counting the last version's.
  static absl::StatusOr<Evaluations> Create(const EvalOptions& options, int64_t total_steps, int64_t most,
                                            scheduler::Client& scheduler, weights::Publisher& publisher);

  // Returns whether the engines should retain `version` for its evaluation. The last version does not need this because
  // it stays live.
  bool Retains(int64_t version) const {
    return version != total_steps_ && Due(version) && HasRoom() && !reported_.contains(version);
  }

  // Returns whether OnLive would start an evaluation of `version` now.
  bool Starts(int64_t version, bool retained) const {
    return Due(version) && !reported_.contains(version) && (version == total_steps_ || (HasRoom() && retained));
  }

  // Returns the versions whose evaluations have not been reported yet.
  const std::set<int64_t>& running() const { return running_; }

  // Call when `version` is live. Starts its evaluation if it is due and has not been reported. Skips and logs it if too
  // many others are running, if the engines did not retain it, or if the scheduler rejects it.
  absl::Status OnLive(int64_t version, bool retained);

  // Starts the evaluation of `version`. If the scheduler cannot start it now, or restarts and loses it, Poll retries.
  // REQUIRES: `version` is live and retained by the engines.
  absl::Status Start(int64_t version);

  // If `retains` returns true for a version, the version stays retained after its evaluation.
  void RetainAfterwards(std::function<bool(int64_t version)> retains) { retains_afterwards_ = std::move(retains); }

  // Restores the state when a run continues at version `first`. `reported` has the versions whose evaluations are in
  // the run's record. Earlier versions that were due but not reported are handled as follows:
  // - If the evaluation has ended, the next Poll reports it.
  // - If every engine still holds the version, the evaluation continues.
  // - Otherwise, the version is logged.
  //
  // Releases all other versions on the engines, except those that RetainAfterwards retains. REQUIRES: called before the
  // first OnLive.
  absl::Status Resume(int64_t first, std::set<int64_t> reported, const RetryPolicy& retry);

  // Queries the running evaluations and calls `report` for each one that has ended. If `report` returns OK, the version
  // is released. Otherwise, the next Poll reports it again. Transient scheduler errors are not returned. The next Poll
  // retries.
  using Report = std::function<absl::Status(int64_t version, const v1::EvalStatusResponse& result)>;
  absl::Status Poll(const Report& report);

  // Blocks until no evaluation is running. `on_line` occasionally receives a line about the wait. `watch`, if set,
  // receives the state of the oldest evaluation twice a second. Returns CANCELLED once the run is stopped, and the error
  // of `fault` (RoleClients::engine_fault), because an engine that cannot sample never ends an evaluation.
  absl::Status Finish(const Report& report, const RetryPolicy& retry, const std::function<absl::Status()>& fault,
                      const std::function<void(const std::string&)>& on_line,
                      const std::function<void(const v1::EvalStatusResponse&)>& watch = nullptr);

 private:
  Evaluations(const EvalOptions& options, int64_t total_steps, int64_t most, scheduler::Client& scheduler,
              weights::Publisher& publisher)
      : options_(options), total_steps_(total_steps), most_(most), scheduler_(&scheduler), publisher_(&publisher) {}
  bool Due(int64_t version) const;
  std::vector<int64_t> DueBefore(int64_t first) const;
  bool HasRoom() const { return std::ssize(running_) < most_; }

  absl::Status RequestStart(int64_t version);
  // Skips the version and returns OK if the scheduler rejected it. Otherwise, returns `asked`.
  absl::Status LeaveOutIfRejected(int64_t version, const absl::Status& asked);
  void Release(int64_t version);
  // Logs a transient error and returns OK. Returns any other `status` unchanged.
  absl::Status DropTransient(const absl::Status& status);

  EvalOptions options_;
  int64_t total_steps_;
  int64_t most_;
  scheduler::Client* scheduler_;
  weights::Publisher* publisher_;
  std::vector<v1::Task> tasks_;
  std::set<int64_t> running_;
  std::set<int64_t> reported_;
  absl::Status delay_;  // last transient error that was logged
  std::function<bool(int64_t version)> retains_afterwards_;
};

// Returns a line for the terminal with the progress of the evaluation being waited for.
std::string DescribeEvaluation(int64_t version, double seconds, const v1::EvalStatusResponse& so_far);

}  // namespace ingot::app
