// The running evaluations: held-out tasks, avg_n samples each, on a pinned version.
//
// One group per task, with the id version * 2^20 + task: ids are unique per version, even across restarts. A failed
// attempt is tried again, max_attempts in all; then the sample counts as reward 0. A sample that the infrastructure
// failed max_infrastructure_failures times is given up too, and is left out of the mean.
//
// Does not touch the journal: NextResult returns a result to write, RecordResult takes it as written. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/options.h"
#include "scheduler/sample.h"

namespace ingot::scheduler {

class EvalBoard {
 public:
  static constexpr int64_t kGroupsPerVersion = int64_t{1} << 20;
  // The largest attempt in the pool, by (group, sample).
  using Attempts = std::map<std::pair<int64_t, int32_t>, int32_t>;

  explicit EvalBoard(const SchedulerOptions& options) : options_(options) {}

  // INVALID_ARGUMENT: no tasks, too many, avg_n < 1, a negative version.
  absl::Status Validate(const v1::StartEvalRequest& request) const;
  // The groups of the evaluation.
  static v1::StartEvalResponse Groups(const v1::StartEvalRequest& request);

  // Starts an evaluation; its samples begin above the attempts in `used`. Idempotent: a repetition while the evaluation
  // runs changes nothing, and neither does any request for a finished version. ALREADY_EXISTS: another request of this
  // version runs. RESOURCE_EXHAUSTED: max_active_evals run. REQUIRES: Validate(request) is OK.
  absl::Status Start(const v1::StartEvalRequest& request, const Attempts& used);

  // A waiting sample, of the lowest version possible; nullopt = none waits.
  std::optional<v1::Ticket> NextTicket(std::chrono::nanoseconds now);
  // An episode ended. False = nothing changed: a repetition, a late end, or the end belongs to a forgotten evaluation.
  // INVALID_ARGUMENT: no such sample or attempt, or the state is not an end.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& request);
  std::vector<v1::EpisodeRef> Running() const;
  // Fails the attempts whose deadline has passed.
  void Expire(std::chrono::nanoseconds now);

  // The result of an evaluation whose samples are all over; the same one until RecordResult.
  std::optional<v1::EvalDone> NextResult() const;
  // The result is journalled: live, or read from the journal.
  void RecordResult(const v1::EvalDone& done);

  // NOT_FOUND: the evaluation was never started, or is forgotten.
  absl::StatusOr<v1::EvalStatusResponse> Status(int64_t version) const;
  // The run went back to `version`: forgets the evaluations of later versions, which will run again.
  void ForgetAfter(int64_t version);

  bool active() const { return !runs_.empty(); }
  bool done(int64_t version) const { return results_.contains(version); }
  int64_t running() const { return running_; }

 private:
  // An evaluation that is not done.
  struct Run {
    v1::StartEvalRequest request;
    std::vector<Sample> samples;                      // [task * avg_n + n]
    std::deque<int32_t> waiting;                      // indices into samples, in the order of hand-out
    std::vector<std::chrono::nanoseconds> deadlines;  // by sample, of its running attempt
    int32_t finished = 0;                             // samples
    int32_t failed = 0;                               // samples given up
    int32_t broken = 0;                               // of those, failed by the infrastructure
    double reward_sum = 0;                            // of finished samples
  };
  // Counts a sample whose state was `before`.
  void Update(Run& run, int32_t sample, Sample::State before);
  void Drop(std::map<int64_t, Run>::iterator it);
  static v1::EvalStatusResponse Summary(const Run& run);
  static v1::EpisodeRef RefOf(int64_t version, const Run& run, int32_t sample);

  const SchedulerOptions options_;
  std::map<int64_t, Run> runs_;                                                 // by version
  std::set<std::tuple<std::chrono::nanoseconds, int64_t, int32_t>> deadlines_;  // (deadline, version, sample)
  std::map<int64_t, v1::EvalStatusResponse> results_;                           // by version
  int64_t running_ = 0;
};

}  // namespace ingot::scheduler
