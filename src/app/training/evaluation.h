// The evaluations of a run: decides which versions are due, starts them at the scheduler and collects their results.
// The training thread calls it between steps; only Finish blocks.
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
  // Reads the held-out tasks of all sets, in the order of their names; without tasks no version is ever due. At most
  // `most` evaluations run at a time, not counting the last version's.
  static absl::StatusOr<Evaluations> Create(const EvalOptions& options, int64_t total_steps, int64_t most,
                                            scheduler::Client& scheduler, weights::Publisher& publisher);

  // Whether the engines are to retain `version` for its evaluation. The last version stays live without that.
  bool Retains(int64_t version) const {
    return version != total_steps_ && Due(version) && HasRoom() && !reported_.contains(version);
  }

  // Whether OnLive would start an evaluation of `version` now.
  bool Starts(int64_t version, bool retained) const {
    return Due(version) && !reported_.contains(version) && (version == total_steps_ || (HasRoom() && retained));
  }

  // The versions whose evaluation is not reported.
  const std::set<int64_t>& running() const { return running_; }

  // `version` is live: starts its evaluation if it is due and not reported. It is left out, with a line in the log, if
  // too many others run, if the engines did not retain it, or if the scheduler rejects it.
  absl::Status OnLive(int64_t version, bool retained);

  // Starts the evaluation of `version`, which is live and retained by the engines. If the scheduler cannot start it
  // now, or restarts and forgets it, Poll asks again.
  absl::Status Start(int64_t version);

  // Versions for which `retains` is true stay retained after their evaluation.
  void RetainAfterwards(std::function<bool(int64_t version)> retains) { retains_afterwards_ = std::move(retains); }

  // REQUIRES: called before the first OnLive. The run continues at version `first`, and its record has evaluations of
  // the versions in `reported`. Earlier versions that were due and are not among them:
  // - an evaluation that has ended is reported by the next Poll;
  // - an evaluation whose version every engine still holds continues;
  // - the log names the versions without either.
  //
  // All other versions that engines hold are released, unless RetainAfterwards names them.
  absl::Status Resume(int64_t first, std::set<int64_t> reported, const RetryPolicy& retry);

  // Asks for the running evaluations, and calls `report` for each that ended; when `report` returns OK, its version is
  // released, otherwise the next Poll reports it again. A transient error of the scheduler is not an error here: the
  // next Poll asks again.
  using Report = std::function<absl::Status(int64_t version, const v1::EvalStatusResponse& result)>;
  absl::Status Poll(const Report& report);

  // Waits until no evaluation runs; `on_line` gets a line about the wait now and then, and `watch`, if set, the state
  // of the oldest evaluation twice a second. CANCELLED once the run is stopped.
  absl::Status Finish(const Report& report, const RetryPolicy& retry,
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
  // Returns OK if the scheduler rejected the version, which is then left out; otherwise `asked`.
  absl::Status LeaveOutIfRejected(int64_t version, const absl::Status& asked);
  void Release(int64_t version);
  // Returns OK for a transient error, which it logs; otherwise `status`.
  absl::Status DropTransient(const absl::Status& status);

  EvalOptions options_;
  int64_t total_steps_;
  int64_t most_;
  scheduler::Client* scheduler_;
  weights::Publisher* publisher_;
  std::vector<v1::Task> tasks_;
  std::set<int64_t> running_;
  std::set<int64_t> reported_;
  absl::Status delay_;  // the last transient error that was logged
  std::function<bool(int64_t version)> retains_afterwards_;
};

// A line for the terminal: the progress of the awaited evaluation.
std::string DescribeEvaluation(int64_t version, double seconds, const v1::EvalStatusResponse& so_far);

}  // namespace ingot::app
