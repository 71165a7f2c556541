// Turns a user's next message into feedback on the answer before it (learn.judge). A model reads the two, and its verdict
// becomes the answer's reward, unless the user gives feedback explicitly.
//
//   OnNextMessage --queue--> KeepNextMessage (durable) --> the judge --> satisfied, dissatisfied: a reward
//                                                                   '--> unclear, failed: counted, and no reward
//
// A response that is not a verdict is asked for once more, and then counts as failed. If the judge cannot be reached, the
// message stays in the pool, and the next start asks again. Nothing is guessed.
//
// Passes everything else on to RatedAnswers. Thread safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "app/learning/rated_answers.h"
#include "app/learning/reaction.h"
#include "app/run/learn_options.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "gateway/user_feedback.h"
#include "reward/judge_model.h"

namespace ingot::app {

class FeedbackJudge final : public gateway::UserFeedback {
 public:
  // REQUIRES: `answers` and `metrics` outlive this object.
  FeedbackJudge(const LearnJudgeOptions& options, RatedAnswers& answers, base::Metrics& metrics);
  ~FeedbackJudge() override { Stop(); }

  // Begins to judge: the messages in the pool without a verdict, and those that arrived before. Called once.
  void Start(std::shared_ptr<const reward::JudgeModel> model);
  // Drops the messages that are not judged yet, and waits for open requests, which can ask `stopping`.
  void Stop();
  bool stopping() const { return stopping_; }

  std::string UserOf(const std::string& api_key) const override { return answers_.UserOf(api_key); }
  absl::Status Give(const std::string& api_key, const gateway::GivenFeedback& given) override {
    return answers_.Give(api_key, given);
  }
  void OnNextMessage(gateway::NextMessage next) override;

 private:
  void Post(gateway::NextMessage next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeNew(const gateway::NextMessage& next);
  void JudgeKept(const gateway::NextMessage& next);
  absl::StatusOr<ReactionVerdict> Ask(const gateway::NextMessage& next) const;
  // Adds one to the outcome's counter, and logs a failure with its cause.
  void Count(const std::string& outcome);
  void CountFailure(const gateway::NextMessage& next, const absl::Status& why);

  const LearnJudgeOptions options_;
  RatedAnswers& answers_;
  base::Metrics& metrics_;
  std::atomic<bool> stopping_{false};
  std::shared_ptr<const reward::JudgeModel> model_;  // set by Start, before the threads exist

  base::Mutex mu_;
  std::vector<gateway::NextMessage> early_ ABSL_GUARDED_BY(mu_);  // before Start
  std::unique_ptr<base::Executor> executor_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
