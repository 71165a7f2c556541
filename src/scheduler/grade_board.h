// The groups that wait for their reward: which group to ask about next, the answers, and which deadlines have passed.
// Knows neither journal nor threads.
//
//   complete --> Next: ask --> in flight --> Answer --+--> OK, or an error that stays: the answer
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

  // The current state of a complete group. Adds a group that the board does not know.
  struct Turn {
    bool ask = false;  // ask about it now; the board counts it as in flight from here on
    std::optional<absl::StatusOr<v1::GradeResponse>> answer;  // final; DEADLINE_EXCEEDED: its deadline has passed
  };
  Turn Next(int64_t group_id, std::chrono::nanoseconds now);
  // An answer came. An answer about a forgotten group changes nothing. True = it is the group's first failed attempt,
  // and another attempt follows.
  bool Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> answer, std::chrono::nanoseconds now);
  // The error of the oldest group whose request failed; empty = none.
  std::string LastError() const;
  void Forget(int64_t group_id) { groups_.erase(group_id); }
  // Forgets the groups that are not in `ended`, which ascends.
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
