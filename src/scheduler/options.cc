#include "scheduler/options.h"

namespace ingot::scheduler {
namespace {

template <typename T>
absl::Status InRange(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ": ", low, " to ", high));
}

}  // namespace

absl::Status SchedulerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(window().Validate());
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("group_size", group_size, 1, kMaxGroupSize));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("total_steps", total_steps, 0, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<double>("group_deadline_seconds", group_deadline_seconds, 1e-3, 1e8));
  INGOT_RETURN_IF_ERROR(InRange<double>("give_up_seconds", give_up_seconds, 0, 1e8));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("give_up_unstarted", give_up_unstarted, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_attempts", max_attempts, 1, 1 << 20));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_concurrent_episodes", max_concurrent_episodes, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_drops_per_batch", max_drops_per_batch, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("keep_steps", keep_steps, 0, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("keep_checkpoints", keep_checkpoints, 1, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("retry_after_ms", retry_after_ms, 1, 3'600'000));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_active_evals", max_active_evals, 1, 1 << 20));
  return InRange<int64_t>("max_eval_episodes", max_eval_episodes, 1, int64_t{1} << 40);
}

}  // namespace ingot::scheduler
