// Evaluations of a run: which versions are due, starting them, and collecting what they gave. Called by the training
// thread between steps; never blocks but in Finish.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/persist.h"
#include "app/run_config.h"
#include "base/status.h"
#include "scheduler/client.h"
#include "weights/publisher.h"

namespace ingot::app {

class Evaluations {
 public:
  // Reads the held-out tasks; without options.tasks nothing is ever due.
  // At most `most` run at a time; the last version's is not one of them.
  static absl::StatusOr<Evaluations> Create(const EvalOptions& options, int64_t total_steps, int64_t most,
                                            scheduler::Client& scheduler, weights::Publisher& publisher);

  // Whether the engines are to retain `version` for its evaluation. Nothing comes after the last.
  bool Retains(int64_t version) const {
    return version != total_steps_ && Due(version) && HasRoom() && !reported_.contains(version);
  }
  // `version` is live: starts its evaluation if it is due and was not reported before. One that too many run beside,
  // that the engines did not retain or that the scheduler refuses is left out, which the log says.
  absl::Status OnLive(int64_t version, bool retained);
  // `version` is live and retained by the engines. An evaluation that the scheduler cannot start now, or forgets
  // because it was started again, is asked for again by Poll.
  absl::Status Start(int64_t version);
  // Versions that stay retained when they have been evaluated.
  void Keep(std::function<bool(int64_t version)> kept) { kept_ = std::move(kept); }
  // The run goes on at `first`, with evaluations of the versions `reported` in its record. Of the versions before it
  // that were due and are not among them, the evaluations that have ended are reported by the next Poll, and those
  // whose version all engines still hold go on. The log says which have none. Whatever else the engines hold and nobody
  // keeps is released. Before the first OnLive.
  absl::Status Resume(int64_t first, std::set<int64_t> reported, const Patience& patience);
  // Looks at the running ones; `report` is called for each that ended, whose version is then released. Until it returns
  // OK the evaluation is one to be reported. What passes by itself of the scheduler is no error: the next Poll looks
  // again.
  using Report = std::function<absl::Status(int64_t version, const v1::EvalStatusResponse& result)>;
  absl::Status Poll(const Report& report);
  // Waits until none is running, and tells now and then for what. CANCELLED once the run is stopped.
  absl::Status Finish(const Report& report, const Patience& patience,
                      const std::function<void(const std::string&)>& tell);

 private:
  Evaluations(const EvalOptions& options, int64_t total_steps, int64_t most, scheduler::Client& scheduler,
              weights::Publisher& publisher)
      : options_(options), total_steps_(total_steps), most_(most), scheduler_(&scheduler), publisher_(&publisher) {}
  bool Due(int64_t version) const;
  bool HasRoom() const { return std::ssize(running_) < most_; }

  absl::Status Ask(int64_t version);
  // OK in place of the scheduler's refusal, for which the version is left out; whatever else, as it is.
  absl::Status LeaveOutIfRefused(int64_t version, const absl::Status& asked);
  void Release(int64_t version);
  // OK in place of an error that passes by itself.
  absl::Status Later(const absl::Status& status);

  EvalOptions options_;
  int64_t total_steps_;
  int64_t most_;
  scheduler::Client* scheduler_;
  weights::Publisher* publisher_;
  std::vector<v1::Task> tasks_;
  std::set<int64_t> running_;
  std::set<int64_t> reported_;
  absl::Status delay_;  // the last that was told
  std::function<bool(int64_t version)> kept_;
};

// What an evaluation is waited for, for the terminal.
std::string DescribeEvaluation(int64_t version, double seconds, const v1::EvalStatusResponse& so_far);

}  // namespace ingot::app
