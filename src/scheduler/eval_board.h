// Tracks running evaluations, which have held-out tasks with avg_n samples each, on a pinned version.
//
// Each task has one group, with id version * 2^20 + task, so group ids do not repeat across versions or restarts. A
// failed attempt is retried, up to max_attempts in total. After that, the sample counts as reward 0. A sample is also
// abandoned after max_infrastructure_failures infrastructure failures, but is then excluded from the mean.
//
// Does not write to the journal: NextResult returns a result to write, and RecordResult marks it as written. Not thread
// safe.
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
  // The highest attempt number in the pool, by (group, sample).
  using Attempts = std::map<std::pair<int64_t, int32_t>, int32_t>;

  explicit EvalBoard(const SchedulerOptions& options) : options_(options) {}

  // Returns INVALID_ARGUMENT for a task list that is empty or too long, avg_n < 1, or a negative version.
  absl::Status Validate(const v1::StartEvalRequest& request) const;
  // Returns the evaluation's groups.
  static v1::StartEvalResponse Groups(const v1::StartEvalRequest& request);

  // Starts an evaluation. Its attempts are numbered above those in `used`. Idempotent: a repeated request has no effect
  // while the evaluation runs, and neither does a request for a finished version. Returns ALREADY_EXISTS if a different
  // request for this version is running, and RESOURCE_EXHAUSTED if max_active_evals evaluations are running. REQUIRES:
  // Validate(request) is OK.
  absl::Status Start(const v1::StartEvalRequest& request, const Attempts& used);

  // Returns a waiting sample from the lowest version that has one, or nullopt if no sample is waiting.
  std::optional<v1::Ticket> NextTicket(std::chrono::nanoseconds now);
  // Records the end of an episode. Returns false if nothing changed because the report is a duplicate, is late, or
  // belongs to a forgotten evaluation. Returns INVALID_ARGUMENT if there is no such sample or attempt, or if the state
  // is not an end state.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& request);
  std::vector<v1::EpisodeRef> Running() const;
  // Fails the attempts that are past their deadline.
  void Expire(std::chrono::nanoseconds now);

  // Returns the result of an evaluation without unfinished samples, and the same result again until RecordResult.
  std::optional<v1::EvalDone> NextResult() const;
  // Records a result that was journaled, either just now or during replay.
  void RecordResult(const v1::EvalDone& done);

  // Returns NOT_FOUND if the evaluation was never started or was forgotten.
  absl::StatusOr<v1::EvalStatusResponse> Status(int64_t version) const;
  // Called when the run goes back to `version`. Forgets the evaluations of later versions, which will run again.
  void ForgetAfter(int64_t version);

  bool active() const { return !runs_.empty(); }
  bool done(int64_t version) const { return results_.contains(version); }
  int64_t running() const { return running_; }

 private:
  // An unfinished evaluation.
  struct Run {
    v1::StartEvalRequest request;
    std::vector<Sample> samples;                      // [task * avg_n + n]
    std::deque<int32_t> waiting;                      // indices into samples, in handout order
    std::vector<std::chrono::nanoseconds> deadlines;  // per sample, for its running attempt
    int32_t finished = 0;                             // finished samples
    int32_t failed = 0;                               // abandoned samples
    int32_t broken = 0;                               // samples abandoned because of infrastructure failures
    double reward_sum = 0;                            // over finished samples
  };
  // Updates the counts after a sample's state changed from `before`.
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
