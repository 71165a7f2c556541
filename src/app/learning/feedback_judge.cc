#include "app/learning/feedback_judge.h"

#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"

namespace ingot::app {
namespace {

constexpr size_t kMaxQueued = 10'000;
constexpr char kFailed[] = "failed";

// Returns an error for unusable responses only.
bool IsUnusable(const absl::Status& status) { return absl::IsInvalidArgument(status); }

}  // namespace

FeedbackJudge::FeedbackJudge(const LearnJudgeOptions& options, RatedAnswers& answers, base::Metrics& metrics)
    : options_(options), answers_(answers), metrics_(metrics) {}

void FeedbackJudge::Start(std::shared_ptr<const reward::JudgeModel> model) {
  base::MutexLock lock(mu_);
  model_ = std::move(model);
  executor_ = std::make_unique<base::Executor>(
      base::ExecutorOptions{.name = "judge", .threads = options_.concurrency, .max_queued = kMaxQueued});
  for (gateway::NextMessage& next : answers_.TakeUnjudged()) {
    executor_->Post([this, next = std::move(next)] { JudgeKept(next); });
  }
  for (gateway::NextMessage& next : std::exchange(early_, {})) Post(std::move(next));
}

void FeedbackJudge::Stop() {
  stopping_ = true;
  std::unique_ptr<base::Executor> executor;
  {
    base::MutexLock lock(mu_);
    executor = std::move(executor_);
  }
  executor.reset();  // without mu_, because it waits for its tasks
}

void FeedbackJudge::OnNextMessage(gateway::NextMessage next) {
  if (!answers_.AwaitsNextMessage(next.call_id)) return;
  base::MutexLock lock(mu_);
  if (stopping_) return;
  if (executor_ == nullptr) return early_.push_back(std::move(next));
  Post(std::move(next));
}

void FeedbackJudge::Post(gateway::NextMessage next) {
  const absl::Status posted = executor_->TryPost([this, next] { JudgeNew(next); });
  if (!posted.ok()) CountFailure(next, absl::ResourceExhaustedError("too many messages wait for the judge"));
}

void FeedbackJudge::JudgeNew(const gateway::NextMessage& next) {
  const absl::StatusOr<bool> kept = answers_.KeepNextMessage(next);
  if (!kept.ok()) return CountFailure(next, kept.status());
  if (*kept) JudgeKept(next);
}

void FeedbackJudge::JudgeKept(const gateway::NextMessage& next) {
  if (stopping_) return;  // it stays in the pool for the next start
  const absl::StatusOr<ReactionVerdict> verdict = Ask(next);
  if (absl::IsCancelled(verdict.status())) return;
  if (!verdict.ok() && !IsUnusable(verdict.status())) return CountFailure(next, verdict.status());
  JudgedFeedback judged;
  judged.call_id = next.call_id;
  judged.verdict = verdict.ok() ? NameOf(verdict->reaction) : kFailed;
  judged.reasoning = verdict.ok() ? verdict->reasoning : std::string(verdict.status().message());
  if (verdict.ok() && verdict->reaction == Reaction::kSatisfied) judged.reward = options_.satisfied;
  if (verdict.ok() && verdict->reaction == Reaction::kDissatisfied) judged.reward = options_.dissatisfied;
  const absl::StatusOr<bool> given = answers_.GiveJudged(judged);
  if (!given.ok()) return CountFailure(next, given.status());
  if (!verdict.ok()) return CountFailure(next, verdict.status());
  Count(*given ? judged.verdict : "superseded");
}

absl::StatusOr<ReactionVerdict> FeedbackJudge::Ask(const gateway::NextMessage& next) const {
  absl::Status fault;
  for (const bool again : {false, true}) {
    INGOT_ASSIGN_OR_RETURN(const std::string answer,
                           model_->Ask(options_.server, QuestionOf(next, base::RandomHex(16), again)));
    absl::StatusOr<ReactionVerdict> verdict = ReactionIn(answer);
    if (verdict.ok()) return verdict;
    fault = absl::InvalidArgumentError(absl::StrCat(verdict.status().message(), "; it answered ",
                                                    base::Printable(answer, {.max_bytes = 200, .quoted = true})));
  }
  return fault;
}

void FeedbackJudge::Count(const std::string& outcome) {
  metrics_
      .GetCounter("ingot_learn_judgments_total", "next messages of users that learn.judge read, by outcome",
                  {{"outcome", outcome}})
      .Increment();
}

void FeedbackJudge::CountFailure(const gateway::NextMessage& next, const absl::Status& why) {
  Count(kFailed);
  INGOT_LOG(warn, "the user's message after answer {} was not judged, and gives no reward: {}", next.call_id,
            std::string(why.message()));
}

}  // namespace ingot::app
