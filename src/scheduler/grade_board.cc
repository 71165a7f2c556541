#include "scheduler/grade_board.h"

#include <algorithm>
#include <utility>

#include "base/cause.h"
#include "base/clock.h"
#include "base/retry.h"

namespace ingot::scheduler {

GradeBoard::Turn GradeBoard::Next(int64_t group_id, std::chrono::nanoseconds now) {
  const auto [it, entered] = groups_.try_emplace(group_id);
  Waiting& group = it->second;
  if (entered) {
    group.deadline = now + base::FromSeconds(grading_.deadline_s);
    group.ask_at = now;
  }
  Turn turn;
  if (group.answer.has_value()) {
    turn.answer = group.answer;
  } else if (now >= group.deadline) {
    absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("its reward took longer than rewards.deadline_s = ", grading_.deadline_s,
                     group.last_error.ok() ? "" : absl::StrCat("; the last attempt: ", group.last_error.message())));
    const std::string cause = base::CauseOf(group.last_error);
    turn.answer = cause.empty() ? late : base::WithCause(late, cause);
  } else if (!group.in_flight && now >= group.ask_at) {
    group.in_flight = turn.ask = true;
  }
  return turn;
}

bool GradeBoard::Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> answer, std::chrono::nanoseconds now) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end()) return false;
  Waiting& group = it->second;
  group.in_flight = false;
  if (!answer.ok() && base::IsTransientOrMoved(answer.status())) {
    const bool first = group.last_error.ok();
    group.last_error = answer.status();
    group.ask_at = now + base::FromSeconds(grading_.retry_s);
    return first;
  }
  group.answer = std::move(answer);
  return false;
}

void GradeBoard::KeepOnly(std::span<const EndedGroup> ended) {
  std::erase_if(groups_, [&](const auto& group) {
    const auto found = std::lower_bound(ended.begin(), ended.end(), group.first,
                                        [](const EndedGroup& one, int64_t id) { return one.group_id < id; });
    return found == ended.end() || found->group_id != group.first;
  });
}

std::string GradeBoard::LastError() const {
  for (const auto& [id, group] : groups_) {
    if (!group.last_error.ok()) return std::string(group.last_error.message());
  }
  return "";
}

}  // namespace ingot::scheduler
