// Trains on rated answers in rounds, and deploys each round's version if its evaluation passes learn.require.
//
//   wait for rated answers -> begin a round -> train K steps -> candidate checkpoint -> evaluate -> decide -> settle
//                                                                                                    |
//                       deployed: the engine swaps to it in flight; its checkpoint is kept  <--------+
//                       rejected, failed: the trainer returns to the deployed version's checkpoint
//
// A rollback that the operator asks for (rollback.h) rejects the open round, and is then a round of its own: a copy of
// the earlier version's checkpoint is settled under the next version number.
//
// Every arrow begins from what is on disk (rounds.h), so after a crash an open round continues where it was, with the
// same answers, and a decided round is settled. The decision is one atomic write. A version is published only after it.
//
// Runs on the caller's thread. Not thread safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/learning/rated_answers.h"
#include "app/learning/rollback.h"
#include "app/learning/rounds.h"
#include "app/models/model_setup.h"
#include "app/run/persist.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/terminal/terminal.h"
#include "base/run_log.h"
#include "base/status.h"
#include "datapool/client.h"
#include "trainer/trainer.h"
#include "view/evaluation/requirement.h"
#include "weights/publisher.h"

namespace ingot::app {

// The objects that the learner uses. They outlive it.
struct LearnerParts {
  const RunConfig& config;
  const RunDir& dir;
  const ModelSetup& model;
  datapool::Client& pool;
  weights::Publisher& publisher;  // the caller adds the engines
  StepLine& line;
  const RetryPolicy& retry;
  // Evaluates a model folder. `name` names the evaluation's folder.
  std::function<absl::StatusOr<view::Figures>(const std::string& folder, const std::string& name)> evaluate;
  std::function<absl::Status()> engine_fault;  // ServedEngine::fault of the engine that answers users
};

class Learner {
 public:
  // Settles the last round, then loads the deployed version, or creates the first one, and publishes it. `resume` = the
  // run's folder may have checkpoints. Blocks during a warm start.
  static absl::StatusOr<std::unique_ptr<Learner>> Start(const LearnerParts& parts, Rounds& rounds, bool resume);

  // Runs rounds and rollbacks until the process is told to stop, and then returns CANCELLED. Returns the engine's fault if
  // it cannot answer any more. Once scheduler.total_steps steps are deployed, or learn.max_rejected rounds in a row were not, prints that and only waits for rollbacks.
  // REQUIRES: called once.
  absl::Status Run(RatedAnswers& answers, base::RunLog& log);

 private:
  Learner(const LearnerParts& parts, Rounds& rounds, std::vector<view::Requirement> requirements)
      : parts_(parts), rounds_(rounds), requirements_(std::move(requirements)) {}

  absl::Status LoadDeployed(bool resume);
  absl::Status Publish();
  // Evaluates the first version, so that later ones can be compared with it. Returns the errors of learn.require.
  absl::Status BeginRun(base::RunLog& log);
  // Returns why no further round begins; empty = rounds may begin.
  std::string WhyTrainingStops() const;
  // Returns the pending request. A damaged file is printed once and ignored.
  std::optional<Rollback> AskedRollback();
  absl::Status RollBackIfAsked(base::RunLog& log);
  bool RejectIfRollbackAsked(Round& round);
  // Makes the candidate and the outcome of a round that restores an earlier version.
  absl::Status Restore(Round& round);
  // Returns the number of answers that a round should train on now; 0 = wait.
  int64_t DueAnswers(const RatedAnswers& answers) const;
  // Returns nullopt if fewer than `count` answers are left.
  absl::StatusOr<std::optional<Round>> BeginRound(RatedAnswers& answers, int64_t count);
  // Trains, evaluates, decides, and settles. Continues an open round.
  absl::Status Finish(Round round, base::RunLog& log);
  // Sets the outcome. Returns only errors that must end the process. An error of the round itself becomes its outcome.
  absl::Status Decide(Round& round);
  absl::StatusOr<std::string> Candidate(const Round& round);
  absl::Status TrainRound(const Round& round);
  absl::Status Settle(const Round& round);
  absl::Status Record(const Round& round, base::RunLog& log);
  absl::Status Store(const Round& round);
  void Report(const Round& round);

  const LearnerParts parts_;
  Rounds& rounds_;
  const std::vector<view::Requirement> requirements_;
  std::unique_ptr<trainer::Trainer> trainer_;
  trainer::StepMetrics step_metrics_;  // of the round's last step, if this process trained it
  int64_t rejected_ = 0;               // rounds in a row that this process did not deploy
  std::string rollback_fault_;         // printed last by AskedRollback
};

}  // namespace ingot::app
