#include "scheduler/options.h"

namespace ingot::scheduler {
namespace {

template <typename T>
absl::Status InRange(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ": ", low, " to ", high));
}

}  // namespace

absl::Status SamplingOptions::Validate() const {
  const auto invalid = [](const std::string& fault) {
    return absl::InvalidArgumentError(absl::StrCat("sampling.", fault));
  };
  if (order != "uniform" && order != "curriculum" && order != "prioritized") {
    return invalid(absl::StrCat("order is '", order, "': uniform, curriculum or prioritized"));
  }
  double sum = 0;
  for (const auto& [domain, weight] : domains) {
    if (!(weight >= 0 && weight <= 1e9)) {
      return invalid(absl::StrCat("domains: the weight of '", domain, "' is ", weight, ": a number >= 0"));
    }
    sum += weight;
  }
  if (!domains.empty() && sum == 0) return invalid("domains: every weight is 0");
  INGOT_RETURN_IF_ERROR(InRange<double>("sampling.curriculum_start", curriculum_start, 1e-6, 1));
  INGOT_RETURN_IF_ERROR(InRange<double>("sampling.curriculum_until", curriculum_until, 1e-6, 1));
  INGOT_RETURN_IF_ERROR(InRange<double>("sampling.warm_up", warm_up, 0, 1));
  INGOT_RETURN_IF_ERROR(InRange<double>("sampling.hard_below", hard_below, 0, 1));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("sampling.retire_after", retire_after, 0, 1 << 20));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("sampling.retire_groups", retire_groups, 0, int64_t{1} << 40));
  if (warm_up > 0 && hard_below == 0)
    return invalid("warm_up needs hard_below, the success rate of the tasks after it");
  if (retire_after > 0 && retire_groups == 0)
    return invalid("retire_after needs retire_groups, for how long a task rests");
  return absl::OkStatus();
}

absl::Status SchedulerOptions::Validate() const {
  if (branching.width != 0) {
    INGOT_RETURN_IF_ERROR(InRange<int64_t>("agents.branching.at", branching.at, 1, 1 << 20));
    if (branching.width < 2 || group_size % branching.width != 0) {
      return absl::InvalidArgumentError(absl::StrCat("agents.branching.width is ", branching.width,
                                                     ": a divisor of group_size ", group_size, ", 2 or more, or 0"));
    }
  } else if (branching.at != 0) {
    return absl::InvalidArgumentError("agents.branching.at needs agents.branching.width, the leaves of a trunk");
  }
  INGOT_RETURN_IF_ERROR(sampling.Validate());
  INGOT_RETURN_IF_ERROR(window().Validate());
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("group_size", group_size, 1, kMaxGroupSize));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("total_steps", total_steps, 0, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<double>("group_deadline_seconds", group_deadline_seconds, 1e-3, 1e8));
  INGOT_RETURN_IF_ERROR(InRange<double>("give_up_seconds", give_up_seconds, 0, 1e8));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("give_up_unstarted", give_up_unstarted, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("give_up_equal", give_up_equal, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_attempts", max_attempts, 1, 1 << 20));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_infrastructure_failures", max_infrastructure_failures, 1, 1 << 20));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_concurrent_episodes", max_concurrent_episodes, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_drops_per_batch", max_drops_per_batch, 0, 1 << 30));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("keep_steps", keep_steps, 0, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("keep_checkpoints", keep_checkpoints, 1, int64_t{1} << 40));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("retry_after_ms", retry_after_ms, 1, 3'600'000));
  INGOT_RETURN_IF_ERROR(InRange<int64_t>("max_active_evals", max_active_evals, 1, 1 << 20));
  return InRange<int64_t>("max_eval_episodes", max_eval_episodes, 1, int64_t{1} << 40);
}

}  // namespace ingot::scheduler
