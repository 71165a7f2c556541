// Tracks the groups that are waiting for their rewards: decides which group to send to the reward stage next, stores
// the answers, and enforces deadlines. Does not use the journal or threads.
//
//   complete --> Next: ask --> in flight --> Answer --+--> OK, or a permanent error: the answer
//                  ^                                  |
//                  +--- retry_s later <--- UNAVAILABLE, DEADLINE_EXCEEDED, ...
//
// Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "proto/reward.pb.h"
#include "scheduler/grader.h"
#include "scheduler/train_groups.h"

namespace ingot::scheduler {

class GradeBoard {
 public:
  explicit GradeBoard(const Grading& grading) : grading_(grading) {}

  // The current state of a complete group. Next adds a group that is not on the board yet.
  struct Turn {
    bool ask = false;                                         // send the request now; the board counts it as in flight
    std::optional<absl::StatusOr<v1::GradeResponse>> answer;  // final; DEADLINE_EXCEEDED = the deadline has passed
  };
  Turn Next(int64_t group_id, std::chrono::nanoseconds now);
  // Records an answer. Ignores answers for forgotten groups. Returns true if this is the group's first failed attempt
  // and another attempt will follow.
  bool Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> answer, std::chrono::nanoseconds now);
  // Returns the error for the oldest group with a failed request; empty = none.
  std::string LastError() const;
  void Forget(int64_t group_id) { groups_.erase(group_id); }
  // Forgets the groups that are not in `ended`, which is sorted in ascending order.
  void KeepOnly(std::span<const EndedGroup> ended);
  int64_t size() const { return static_cast<int64_t>(groups_.size()); }

 private:
  struct Waiting {
    std::chrono::nanoseconds deadline{0}, ask_at{0};
    bool in_flight = false;
    absl::Status last_error;
    std::optional<absl::StatusOr<v1::GradeResponse>> answer;
  };
  const Grading grading_;
  std::map<int64_t, Waiting> groups_;
};

}  // namespace ingot::scheduler
