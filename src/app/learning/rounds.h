// Stores the rounds of `ingot serve --learn` on disk. A round's file is its only state: it exists once the round has
// begun, and it has an outcome once the round is decided. Both are atomic, so after a crash, a round is either not
// begun, open, deployed, rejected, or failed.
//
//   RUN/rounds/round-00000003.json      answers, version, evaluation, outcome
//   RUN/rounds/candidate-3/step-N/      the version, from the end of its training until the round is settled
//   RUN/checkpoints/step-N/             deployed versions, all of them
//   RUN/evaluations/round-3/            the evaluation's run folder (`ingot inspect`)
//
//   begun --train--> candidate --evaluate, require--> decided --settle--> candidate moved to checkpoints, or removed
//
// Round 0 is the run's first version and its evaluation. It has no answers. Neither has a round that restores an earlier
// version, which the operator asked for (rollback.h). Its candidate is a copy of that version's checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/learning/rated_answers.h"
#include "base/status.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {

enum class Outcome { kOpen, kDeployed, kRejected, kFailed };

struct Round {
  int64_t number = 0;
  int64_t from = 0;       // the deployed version that it trains
  int64_t version = 0;    // the version that it makes
  int64_t restores = -1;  // the earlier version whose weights it deploys again; -1 = it trains
  std::vector<RatedAnswer> answers;
  Outcome outcome = Outcome::kOpen;
  std::vector<std::string> reasons;  // a line per requirement, or why the round failed
  view::Figures evaluation;          // empty if the round failed before its evaluation
  int64_t began_unix_ns = 0;
  int64_t decided_unix_ns = 0;  // 0 = open

  double reward_mean() const;  // mean over its answers; 0 = no answers
};

// The rounds of one run, in order. The last one may be open. Not thread safe.
class Rounds {
 public:
  // Creates the folder. Returns DATA_LOSS, naming the file, if a round is missing or its file is damaged.
  static absl::StatusOr<Rounds> Open(const std::string& run_path);

  // Durably adds the next round, or replaces the last one. REQUIRES: all rounds before it are decided.
  absl::Status Store(const Round& round);
  const std::vector<Round>& all() const { return rounds_; }
  const std::string& run_path() const { return run_path_; }
  // Returns the round that deployed the current version, or null if there is none yet.
  const Round* deployed() const;
  // Returns the round of every answer, by call.
  std::map<std::string, int64_t> RoundsOfAnswers() const;

  std::string CandidateRoot(int64_t round) const;
  // Moves a decided round's candidate to the checkpoints, or removes it. Safe to call repeatedly.
  absl::Status Settle(const Round& round) const;

 private:
  explicit Rounds(std::string run_path) : run_path_(std::move(run_path)) {}
  std::string PathOf(int64_t round) const;

  std::string run_path_;
  std::vector<Round> rounds_;
};

std::string NameOf(Outcome outcome);  // "deployed"

}  // namespace ingot::app
