// The evaluations that run: held-out tasks, avg_n samples each, on a pinned version. One group per task; group ids are
// version * 2^20 + task, so that they are unique per version, whatever was restarted in between. A failed episode is
// tried again, max_attempts in all, and then counts as reward 0.
//
// Not thread safe. Knows no journal: NextToRecord hands out what is done, Record takes it as written.
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
  // The largest attempt that the pool holds of (group, sample).
  using Attempts = std::map<std::pair<int64_t, int32_t>, int32_t>;

  explicit EvalBoard(const SchedulerOptions& options) : options_(options) {}

  // INVALID_ARGUMENT: no tasks, too many, avg_n < 1, a negative version.
  absl::Status Validate(const v1::StartEvalRequest& request) const;
  static v1::StartEvalResponse Groups(const v1::StartEvalRequest& request);

  // Idempotent: the same request for a version that runs or is done changes nothing. ALREADY_EXISTS: another request
  // for that version; RESOURCE_EXHAUSTED: max_active_evals run. REQUIRES: Validate(request) is OK.
  absl::Status Start(const v1::StartEvalRequest& request, const Attempts& used);

  // An episode of the oldest evaluation that has one waiting.
  std::optional<v1::Ticket> NextTicket(std::chrono::nanoseconds now);
  // Late ends, and ends of evaluations that are forgotten, are OK.
  absl::Status Ended(const v1::EpisodeEndedRequest& request);
  std::vector<v1::EpisodeRef> Running() const;
  // Episodes that ran past their deadline count as failed attempts.
  void Expire(std::chrono::nanoseconds now);

  std::optional<v1::EvalDone> NextToRecord() const;
  void Record(const v1::EvalDone& done);

  // NOT_FOUND: never started, or forgotten.
  absl::StatusOr<v1::EvalStatusResponse> Status(int64_t version) const;
  // The run went back to `version`: later ones will be made, and evaluated, again.
  void ForgetAfter(int64_t version);

  bool active() const { return !runs_.empty(); }
  bool done(int64_t version) const { return results_.contains(version); }
  int64_t running() const { return running_; }

 private:
  struct Run {
    v1::StartEvalRequest request;
    std::vector<Sample> samples;  // task * avg_n + n
    std::deque<int32_t> waiting;
    std::vector<std::chrono::nanoseconds> deadlines;  // of the running attempt
    int32_t finished = 0;
    int32_t failed = 0;
    double reward_sum = 0;
  };
  // Counts a sample that changed from `before`.
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
