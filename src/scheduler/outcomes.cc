#include "scheduler/outcomes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cause.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tree/episode_return.h"

namespace ingot::scheduler {
namespace {

// Returns the reason for the lowest sample that could not be judged. A protobuf map is unordered.
std::string WhyUngraded(const v1::GradeResponse& graded) {
  const auto first = std::min_element(graded.ungraded().begin(), graded.ungraded().end(),
                                      [](const auto& a, const auto& b) { return a.first < b.first; });
  return first == graded.ungraded().end() ? "no reason was given" : first->second;
}

}  // namespace

Outcomes::Outcomes(const SchedulerOptions& options, const Grading& grading, const base::Clock& clock,
                   SchedulerMetrics metrics, OnGraded on_graded)
    : options_(options),
      grading_(grading),
      clock_(clock),
      metrics_(metrics),
      on_graded_(std::move(on_graded)),
      grades_(grading) {}

absl::StatusOr<bool> Outcomes::Decide(JournaledRun& run) {
  bool changed = false;
  const std::vector<EndedGroup> all = run.groups().Ended();
  grades_.KeepOnly(all);  // an outcome may be in the journal even though its write failed
  for (const EndedGroup& ended : all) {
    const std::optional<Outcome> outcome = OutcomeOf(ended);
    if (!outcome.has_value()) continue;
    INGOT_RETURN_IF_ERROR(Write(ended.group_id, *outcome, run));
    grades_.Forget(ended.group_id);
    if (!outcome->failed_term.empty()) metrics_.CountFailedTerm(outcome->failed_term);
    run.halt().TermsAsked(outcome->terms, outcome->failed_term, outcome->failure);
    changed = true;
  }
  INGOT_ASSIGN_OR_RETURN(const bool results, WriteEvalResults(run));
  return changed || results;
}

absl::StatusOr<bool> Outcomes::WriteEvalResults(JournaledRun& run) {
  bool changed = false;
  while (const auto done = run.evals().NextResult()) {
    // If an evaluation's agents never started, it does not measure the policy, so its result is not journaled.
    if (const auto status = run.evals().Status(done->version());
        status.ok() && status->failed() == status->total() && !run.CheckUnstarted(/*all_failed=*/true).ok()) {
      break;
    }
    v1::JournalRecord record;
    *record.mutable_eval() = *done;
    INGOT_RETURN_IF_ERROR(run.Write(std::move(record)));
    changed = true;
  }
  return changed;
}

std::optional<Outcomes::Outcome> Outcomes::OutcomeOf(const EndedGroup& ended) {
  Outcome outcome;
  outcome.failure = ended.failure;
  if (!ended.failure.empty()) return outcome;
  if (grading_.grader == nullptr) {
    const auto [low, high] = std::minmax_element(ended.returns.begin(), ended.returns.end());
    outcome.returns = ended.returns;
    outcome.success = SuccessOf(ended.returns);
    outcome.equal = ended.returns.size() > 1 && tree::SameReturn(*low, *high);
    return outcome;
  }
  if (!asking_) return std::nullopt;
  const GradeBoard::Turn turn = grades_.Next(ended.group_id, clock_.Now());
  if (turn.ask) Ask(ended);
  if (!turn.answer.has_value()) return std::nullopt;
  if (turn.answer->ok()) return Judged(ended, **turn.answer);
  outcome.failure = absl::StrCat("it got no reward: ", turn.answer->status().message());
  outcome.failed_term = base::CauseOf(turn.answer->status());
  return outcome;
}

Outcomes::Outcome Outcomes::Judged(const EndedGroup& ended, const v1::GradeResponse& graded) {
  Outcome outcome;
  outcome.equal = graded.equal();
  outcome.success = SuccessOf({graded.outcomes().begin(), graded.outcomes().end()});
  for (const double value : graded.returns()) {
    if (std::isfinite(value)) outcome.returns.push_back(value);
  }
  if (!graded.ungraded().empty()) {
    metrics_.CountUngraded(graded.ungraded_size());
    INGOT_LOG(warn, "group {}: {} of {} episodes could not be scored and are not trained, for example: {}",
              ended.group_id, graded.ungraded_size(), graded.returns_size(), WhyUngraded(graded));
  }
  if (outcome.returns.empty()) {
    outcome.failure = absl::StrCat("none of its episodes could be scored: ", WhyUngraded(graded));
    outcome.failed_term = graded.failed_term();
  }
  outcome.terms.assign(graded.terms().begin(), graded.terms().end());
  return outcome;
}

std::optional<double> Outcomes::SuccessOf(const std::vector<double>& outcomes) const {
  int64_t judged = 0, succeeded = 0;
  for (const double outcome : outcomes) {
    if (!std::isfinite(outcome)) continue;
    ++judged;
    succeeded += outcome > options_.sampling.success_above ? 1 : 0;
  }
  if (judged == 0) return std::nullopt;
  return static_cast<double>(succeeded) / static_cast<double>(judged);
}

void Outcomes::Ask(const EndedGroup& ended) const {
  v1::GradeRequest request;
  request.set_group_id(ended.group_id);
  request.set_admitted_version(ended.admitted_version);
  grading_.executor->Post([grader = grading_.grader, on_graded = on_graded_, request] {
    on_graded(request.group_id(), grader->Grade(request));
  });
}

void Outcomes::Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded) {
  const absl::Status attempt = graded.status();
  if (!grades_.Answer(group_id, std::move(graded), clock_.Now())) return;
  INGOT_LOG(warn, "group {} has no reward yet; retrying until rewards.deadline_s = {} has passed: {}", group_id,
            grading_.deadline_s, std::string(attempt.message()));
}

absl::Status Outcomes::Write(int64_t group_id, const Outcome& outcome, JournaledRun& run) {
  const bool drop = options_.drop_zero_variance && outcome.equal &&
                    (options_.max_drops_per_batch == 0 || run.steps().current().dropped < options_.max_drops_per_batch);
  v1::JournalRecord record;
  if (outcome.failure.empty() && !drop) {
    v1::GroupRewarded& rewarded = *record.mutable_rewarded();
    rewarded.set_group_id(group_id);
    rewarded.mutable_returns()->Add(outcome.returns.begin(), outcome.returns.end());
    rewarded.set_equal(outcome.equal);
    if (outcome.success.has_value()) rewarded.set_success(*outcome.success);
    return run.Write(std::move(record));
  }
  v1::GroupClosed& closed = *record.mutable_closed();
  closed.set_group_id(group_id);
  closed.set_outcome(outcome.failure.empty() ? v1::GROUP_DROPPED : v1::GROUP_FAILED);
  closed.set_reason(outcome.failure.empty() ? "all rewards are equal" : base::ToUtf8(outcome.failure));
  if (outcome.failure.empty()) {
    closed.mutable_returns()->Add(outcome.returns.begin(), outcome.returns.end());
    if (outcome.success.has_value()) closed.set_success(*outcome.success);
  }
  if (!outcome.failure.empty()) INGOT_LOG(warn, "group {} failed: {}", group_id, outcome.failure);
  INGOT_RETURN_IF_ERROR(run.Write(std::move(record)));
  if (drop) run.halt().WarnOfEqual();
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
