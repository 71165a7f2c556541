// Decides what happens to a group whose samples have ended: it gets its reward, is dropped, or fails.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cause.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/scheduler.h"
#include "tree/episode_return.h"

namespace ingot::scheduler {
namespace {

// The reason for the lowest sample that could not be judged; a protobuf map has no order.
std::string WhyUngraded(const v1::GradeResponse& graded) {
  const auto first = std::min_element(graded.ungraded().begin(), graded.ungraded().end(),
                                      [](const auto& a, const auto& b) { return a.first < b.first; });
  return first == graded.ungraded().end() ? "no reason was given" : first->second;
}

}  // namespace

absl::Status Scheduler::DecideOutcomes() {
  bool changed = false;
  for (const EndedGroup& ended : groups_.Ended()) {
    std::optional<Outcome> outcome = OutcomeOf(ended);
    if (!outcome.has_value()) continue;
    INGOT_RETURN_IF_ERROR(WriteOutcome(ended.group_id, *outcome));
    CountTerms(*outcome);
    changed = true;
  }
  // An evaluation whose agents never started says nothing about the policy: its result is not journalled.
  while (const auto done = evals_.NextResult()) {
    if (const auto status = evals_.Status(done->version());
        status.ok() && status->failed() == status->total() && !halt_.CheckUnstarted(true).ok()) {
      break;
    }
    v1::JournalRecord record;
    *record.mutable_eval() = *done;
    INGOT_RETURN_IF_ERROR(Write(std::move(record)));
    changed = true;
  }
  if (changed) NotifyChange();
  return absl::OkStatus();
}

std::optional<Scheduler::Outcome> Scheduler::OutcomeOf(const EndedGroup& ended) {
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
  if (!recovered_) return std::nullopt;
  const GradeBoard::Turn turn = grades_.Next(ended.group_id, clock_.Now());
  if (turn.ask) AskGrader(ended);
  if (!turn.answer.has_value()) return std::nullopt;
  if (!turn.answer->ok()) {
    outcome.failure = absl::StrCat("it got no reward: ", turn.answer->status().message());
    outcome.failed_term = base::CauseOf(turn.answer->status());
    return outcome;
  }
  const v1::GradeResponse& graded = **turn.answer;
  outcome.equal = graded.equal();
  outcome.success = SuccessOf({graded.outcomes().begin(), graded.outcomes().end()});
  for (const double value : graded.returns()) {
    if (std::isfinite(value)) outcome.returns.push_back(value);
  }
  if (!graded.ungraded().empty()) {
    metrics_.CountUngraded(graded.ungraded_size());
    INGOT_LOG(warn, "group {}: {} of {} episodes could not be judged and are not trained; one: {}", ended.group_id,
              graded.ungraded_size(), graded.returns_size(), WhyUngraded(graded));
  }
  if (outcome.returns.empty()) {
    outcome.failure = absl::StrCat("no episode of it could be judged: ", WhyUngraded(graded));
    outcome.failed_term = graded.failed_term();
  }
  outcome.terms.assign(graded.terms().begin(), graded.terms().end());
  return outcome;
}

std::optional<double> Scheduler::SuccessOf(const std::vector<double>& outcomes) const {
  int64_t judged = 0, succeeded = 0;
  for (const double outcome : outcomes) {
    if (!std::isfinite(outcome)) continue;
    ++judged;
    succeeded += outcome > options_.sampling.success_above ? 1 : 0;
  }
  if (judged == 0) return std::nullopt;
  return static_cast<double>(succeeded) / static_cast<double>(judged);
}

void Scheduler::AskGrader(const EndedGroup& ended) {
  v1::GradeRequest request;
  request.set_group_id(ended.group_id);
  request.set_admitted_version(ended.admitted_version);
  grading_.executor->Post([this, request] {
    absl::StatusOr<v1::GradeResponse> graded = grading_.grader->Grade(request);
    base::MutexLock lock(mu_);
    if (shut_down_) return;
    const absl::Status attempt = graded.status();
    if (grades_.Answer(request.group_id(), std::move(graded), clock_.Now())) {
      INGOT_LOG(warn, "group {} has no reward yet; judging is retried until rewards.deadline_s = {} has passed: {}",
                request.group_id(), grading_.deadline_s, std::string(attempt.message()));
    }
    // A failed write is resolved by the next call.
    if (const absl::Status decided = Prepare(); !decided.ok()) {
      INGOT_LOG(warn, "the reward of group {} is not in the journal yet: {}", request.group_id(),
                std::string(decided.message()));
    }
  });
}

void Scheduler::CountTerms(const Outcome& outcome) {
  if (!outcome.failed_term.empty()) metrics_.CountFailedTerm(outcome.failed_term);
  halt_.TermsAsked(outcome.terms, outcome.failed_term, outcome.failure);
}

absl::Status Scheduler::WriteOutcome(int64_t group_id, const Outcome& outcome) {
  const bool drop = options_.drop_zero_variance && outcome.equal &&
                    (options_.max_drops_per_batch == 0 || steps_.back().dropped < options_.max_drops_per_batch);
  v1::JournalRecord record;
  if (outcome.failure.empty() && !drop) {
    v1::GroupRewarded& rewarded = *record.mutable_rewarded();
    rewarded.set_group_id(group_id);
    rewarded.mutable_returns()->Add(outcome.returns.begin(), outcome.returns.end());
    rewarded.set_equal(outcome.equal);
    if (outcome.success.has_value()) rewarded.set_success(*outcome.success);
    return Write(std::move(record));
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
  INGOT_RETURN_IF_ERROR(Write(std::move(record)));
  if (drop) halt_.WarnOfEqual();
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
