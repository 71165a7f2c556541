#include "scheduler/journal/halt_rules.h"

#include <algorithm>

#include "base/log.h"
#include "scheduler/task_sampler.h"

namespace ingot::scheduler {

void HaltRules::GroupRewarded() {
  failed_in_a_row_ = 0;
  equal_ = {};
}

void HaltRules::GroupDropped(int64_t group_id, std::span<const double> returns) {
  failed_in_a_row_ = 0;
  for (const double value : returns) {
    equal_.low = equal_.groups == 0 ? value : std::min(equal_.low, value);
    equal_.high = equal_.groups == 0 ? value : std::max(equal_.high, value);
  }
  ++equal_.groups;
  equal_.last = group_id;
}

void HaltRules::GroupFailed(int64_t group_id, const std::string& reason, std::chrono::nanoseconds now) {
  if (failed_in_a_row_++ == 0) failing_since_ = now;
  last_failure_ = absl::StrCat("group ", group_id, ": ", reason);
}

void HaltRules::RunStartedAgain() {
  if (MaxEqual() > 0) equal_.groups %= MaxEqual();
}

void HaltRules::EpisodeEnded(const v1::ReportEpisodeEndRequest& ended, std::chrono::nanoseconds now) {
  if (ended.state() == v1::EPISODE_FINISHED) {
    ++finished_episodes_;
    unstarted_ = 0;
  }
  if (ended.state() == v1::EPISODE_FORKED) unstarted_ = 0;  // its agent got as far as its fork
  const bool of_setup = ended.state() == v1::EPISODE_INFRASTRUCTURE_FAILED;
  if (ended.state() != v1::EPISODE_FAILED && !of_setup) return;
  if (!of_setup && !ended.before_first_call()) {
    unstarted_ = 0;
    return;
  }
  if (unstarted_++ == 0) unstarted_since_ = now;
  last_unstarted_ = ended.detail();
}

void HaltRules::TermsAsked(const std::vector<std::string>& judged, const std::string& failed,
                           const std::string& failure) {
  for (const std::string& term : judged) failed_terms_.erase(term);
  if (failed.empty()) return;
  FailedTerm& term = failed_terms_[failed];
  ++term.groups;
  term.last = failure;
}

absl::Status HaltRules::CheckGroups(const WindowedFifo& policy, int64_t tasks_left,
                                    std::chrono::nanoseconds now) const {
  INGOT_RETURN_IF_ERROR(CheckUnstarted(/*all_failed=*/false, now));
  INGOT_RETURN_IF_ERROR(CheckFailed(policy, now));
  INGOT_RETURN_IF_ERROR(CheckEqual(policy));
  return CheckTasksLeft(policy, tasks_left);
}

absl::Status HaltRules::CheckFailed(const WindowedFifo& policy, std::chrono::nanoseconds now) const {
  if (options_.give_up_seconds <= 0 || failed_in_a_row_ <= policy.budget()) return absl::OkStatus();
  const double seconds = std::chrono::duration<double>(now - failing_since_).count();
  if (seconds < options_.give_up_seconds) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "ending the run: in ", static_cast<int64_t>(seconds), " s all of ", failed_in_a_row_,
      " groups have failed, and none has finished (scheduler.give_up_s); the last failure: ", last_failure_));
}

absl::Status HaltRules::CheckEqual(const WindowedFifo& policy) const {
  if (MaxEqual() == 0 || equal_.groups < MaxEqual()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "ending the run: the last ", equal_.groups, " graded groups had the same reward for every sample in the group ",
      "(scheduler.give_up_equal), and batch ", policy.next_step(), " has ", policy.pending(), " of ",
      policy.groups_per_step(), " groups; ", DescribeEqual(),
      ": use tasks that the policy solves sometimes (data.tasks, scheduler.sampling), fix the reward if it does not "
      "distinguish answers, or train such groups anyway (scheduler.max_drops_per_batch above 0, or "
      "scheduler.drop_zero_variance=false)"));
}

absl::Status HaltRules::CheckTasksLeft(const WindowedFifo& policy, int64_t tasks_left) const {
  if (!options_.sampling.once || tasks_left > 0 || policy.unbatched() >= policy.groups_per_step()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the run ended before its last step: ", TaskSampler::kUsedUp, ", and ", policy.unbatched(),
                   " groups remain of the ", policy.groups_per_step(), " that batch ", policy.next_step(),
                   " needs; set scheduler.total_steps to what the tasks allow, minus dropped groups, or add tasks"));
}

absl::Status HaltRules::CheckUnstarted(bool all_failed, std::chrono::nanoseconds now) const {
  if (options_.give_up_unstarted <= 0 || unstarted_ == 0) return absl::OkStatus();
  if (finished_episodes_ > 0) return CheckUnstartedAgain(now);
  if (!all_failed && unstarted_ < options_.give_up_unstarted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ending the run: ", unstarted_,
                   " consecutive episodes have failed in setup, and none has finished (scheduler.give_up_unstarted); "
                   "fix agents.recipes or the machine; the last failure: ",
                   last_unstarted_));
}

// The recipe works, so the failure may be temporary. For example, a restarting server must not end the run.
absl::Status HaltRules::CheckUnstartedAgain(std::chrono::nanoseconds now) const {
  const double seconds = std::chrono::duration<double>(now - unstarted_since_).count();
  if (unstarted_ < options_.give_up_unstarted || options_.give_up_seconds <= 0 || seconds < options_.give_up_seconds)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ending the run: in ", static_cast<int64_t>(seconds), " s, ", unstarted_,
                   " consecutive episodes have failed in setup, and none has finished (scheduler.give_up_s, "
                   "scheduler.give_up_unstarted); fix what the last failure names, and start the run again: ",
                   last_unstarted_));
}

absl::Status HaltRules::CheckTerms() const {
  for (const auto& [term, failed] : failed_terms_) {
    if (give_up_groups_ <= 0 || failed.groups < give_up_groups_) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("ending the run: the reward term '", term, "' has scored no episode in ", failed.groups,
                     " consecutive groups (rewards.give_up_groups); fix its server, its options in rewards.terms, or "
                     "the tasks, and start the run again; the last failure: ",
                     failed.last));
  }
  return absl::OkStatus();
}

std::string HaltRules::DescribeEqual() const {
  const std::string earned = equal_.low == equal_.high
                                 ? absl::StrCat("all of their samples earned ", equal_.low)
                                 : absl::StrCat("their samples earned from ", equal_.low, " to ", equal_.high);
  return absl::StrCat(earned, "; the last one is group ", equal_.last);
}

void HaltRules::WarnOfEqual() const {
  if (MaxEqual() == 0 || equal_.groups != (MaxEqual() + 3) / 4) return;
  INGOT_LOG(warn,
            "{} consecutive groups were dropped because all samples in a group earned the same reward: {}; after {}, "
            "the run ends (scheduler.give_up_equal)",
            equal_.groups, DescribeEqual(), MaxEqual());
}

}  // namespace ingot::scheduler
