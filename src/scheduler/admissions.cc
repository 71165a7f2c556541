#include "scheduler/admissions.h"

#include <utility>

#include "base/retry.h"

namespace ingot::scheduler {
namespace {

Requester RequesterOf(const v1::AdmitRequest& request) {
  return {.runner = request.runner(), .scaffold = request.scaffold()};
}

}  // namespace

absl::Status Admissions::Validate(const v1::AdmitRequest& request) {
  if (request.group().empty() == request.has_task()) {
    return absl::InvalidArgumentError("set both 'group' and 'task', or neither");
  }
  if (request.has_sample_of() && request.has_task()) {
    return absl::InvalidArgumentError("'sample_of' uses the group's task: remove 'group' and 'task'");
  }
  return absl::OkStatus();
}

absl::Status Admissions::Reject(const std::string& cause, const std::string& text) {
  metrics_.CountRejection(cause);
  return base::WithRetryAfter(absl::ResourceExhaustedError(text), options_.retry_after_ms);
}

absl::StatusOr<v1::Ticket> Admissions::Admit(const v1::AdmitRequest& request, JournaledRun& run) {
  if (options_.max_concurrent_episodes > 0 && run.running() >= options_.max_concurrent_episodes) {
    return Reject("concurrency", absl::StrCat("max_concurrent_episodes = ", options_.max_concurrent_episodes,
                                              " episodes are running"));
  }
  std::optional<v1::Ticket> of_eval;
  if (request.group().empty() && !request.has_sample_of()) of_eval = run.NextEvalTicket();
  absl::StatusOr<v1::Ticket> ticket = of_eval.has_value() ? *std::move(of_eval) : AdmitTraining(request, run);
  if (ticket.ok()) ticket->set_oldest_group(run.policy().head());
  return ticket;
}

absl::StatusOr<v1::Ticket> Admissions::AdmitTraining(const v1::AdmitRequest& request, JournaledRun& run) {
  if (run.all_batches_made()) return RejectAtEnd(run);
  if (!run.live_known()) return Reject("no_version", "no policy version is live yet");
  if (request.has_sample_of()) return AdmitSampleOf(request, run.groups());
  if (!request.group().empty()) {
    INGOT_ASSIGN_OR_RETURN(auto ticket, AdmitNamed(request, run.groups()));
    if (ticket.has_value()) return *std::move(ticket);
  } else if (auto ticket = run.groups().NextTicket(RequesterOf(request))) {
    return *std::move(ticket);
  }
  return AdmitNewGroup(request, run);
}

absl::Status Admissions::RejectAtEnd(const JournaledRun& run) {
  // A resumed trainer may not have reached the last batch yet, and may still evaluate versions.
  const bool fed = last_batch_fed_ || (run.live_known() && run.policy().live_version() >= options_.total_steps);
  if (!fed)
    return Reject("last_batches", "all batches are in the journal, but the trainer has not reached the last one");
  const bool eval_to_come = options_.final_eval && !run.evals().done(options_.total_steps);
  if (run.evals().active() || eval_to_come) {
    return Reject("evaluation", "only the run's last evaluation is left: open its episodes without a group");
  }
  return absl::FailedPreconditionError("the run is over: the trainer has received its last batch");
}

absl::StatusOr<v1::Ticket> Admissions::AdmitSampleOf(const v1::AdmitRequest& request, TrainGroups& groups) const {
  const int64_t group = request.sample_of();
  if (!groups.contains(group)) {
    return absl::FailedPreconditionError(absl::StrCat("group ", group, " is over: it accepts no more samples"));
  }
  if (groups.branches(group)) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", group, " branches automatically (agents.branching): its runner forks its trunks"));
  }
  auto ticket = groups.TicketOf(group, RequesterOf(request));
  if (ticket.has_value()) return *std::move(ticket);
  return absl::FailedPreconditionError(
      absl::StrCat("group ", group, " has no samples left to run: all ", options_.group_size, " are running or done"));
}

absl::StatusOr<std::optional<v1::Ticket>> Admissions::AdmitNamed(const v1::AdmitRequest& request,
                                                                 TrainGroups& groups) const {
  const std::optional<int64_t> known = groups.Named(request.group());
  if (!known.has_value()) return std::nullopt;
  if (groups.contains(*known)) {
    const v1::Task& task = groups.task(*known);
    const bool same = task.task_id() == request.task().task_id() && task.domain() == request.task().domain() &&
                      task.payload_json() == request.task().payload_json();
    if (!same) {
      return absl::InvalidArgumentError(
          absl::StrCat("group '", request.group(), "' was admitted with another task: a group has one task"));
    }
    if (auto ticket = groups.TicketOf(*known)) return ticket;
  }
  return absl::FailedPreconditionError(absl::StrCat("group '", request.group(), "' has no samples left to run: all ",
                                                    options_.group_size, " are running or done, or the group is over"));
}

absl::StatusOr<v1::Ticket> Admissions::AdmitNewGroup(const v1::AdmitRequest& request, JournaledRun& run) {
  const WindowedFifo& policy = run.policy();
  // The last batches need at most this many groups. Additional groups would never be trained.
  const int64_t needed = (options_.total_steps - policy.next_step()) * options_.groups_per_step;
  if (policy.unbatched() >= needed) {
    return Reject("last_batches", "all groups that the last batches need are running or done");
  }
  if (!policy.CanAdmit()) {
    return Reject("window", absl::StrCat("all ", policy.budget(), " groups in the window are in use"));
  }
  const int64_t group = policy.next_group();
  v1::JournalRecord record;
  v1::GroupAdmitted& admitted = *record.mutable_admitted();
  admitted.set_group_id(group);
  if (request.group().empty()) {
    const double earliest = static_cast<double>(policy.next_step()) / static_cast<double>(options_.total_steps);
    const v1::Task* const task = run.sampler().Choose(group, earliest);
    if (task == nullptr) return Reject("tasks_used_up", TaskSampler::kUsedUp);
    *admitted.mutable_task() = *task;
  } else {
    *admitted.mutable_task() = request.task();
  }
  admitted.set_name(request.group());
  admitted.set_group_size(options_.group_size);
  admitted.set_admitted_version(policy.live_version());
  // A client that cannot fork gets a group without trunks.
  if (request.group().empty() && !request.runner().empty() && options_.branching.width > 0) {
    admitted.set_branch_width(options_.branching.width);
    admitted.set_branch_at(options_.branching.at);
  }
  INGOT_RETURN_IF_ERROR(run.Write(std::move(record)));
  auto ticket = run.groups().TicketOf(group, RequesterOf(request));
  if (!ticket.has_value()) return absl::InternalError("a newly admitted group has no sample to run");
  return *std::move(ticket);
}

}  // namespace ingot::scheduler
