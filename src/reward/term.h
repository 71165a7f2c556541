// A RewardTerm is one number that a run wants to maximize in an episode. A group's reward is the weighted sum of its
// terms (reward/rule.h). A term sees the whole group, because some terms are relative to it: length, completion time.
//
// A new term is one file under src/reward/terms/ with its options, their keys and its source (paper, equation), a row in
// the table of kinds (reward/term_kinds.cc), and a test worked by hand. docs/guide/rewards.md lists the terms.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/facts.h"

namespace ingot::base {
class Schema;  // base/config.h
}

namespace ingot::reward {

// The values that a term gives to one episode.
struct TermResult {
  double value = 0;                     // to the episode as a whole; finite
  std::map<std::string, double> calls;  // to single calls, by call_id; finite
  // Advantages of single tokens, by call_id, one per token that the call sampled; finite (TermValue.tokens).
  std::map<std::string, std::vector<float>> tokens;
  std::string detail;                      // for people
  std::map<std::string, double> measures;  // other numbers than the value (TermValue.measures); finite
};

class RewardTerm {
 public:
  virtual ~RewardTerm() = default;

  // One result per episode of `group`, in order. An episode's error means that the term could not judge it: the episode
  // is left out of the group and counted, and never gets a 0. An error of the whole call means that the term does not
  // apply to this group's task: the group fails.
  //
  // True = it reads GroupFacts.history.
  virtual bool uses_history() const { return false; }

  // Pure and thread safe, except that terms that ask other servers (judge, external) block up to their time limits.
  virtual absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const = 0;
};

// A term that judges one episode at a time.
class EpisodeTerm : public RewardTerm {
 public:
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const final;

 protected:
  // FAILED_PRECONDITION: the term does not apply to this task.
  virtual absl::Status CheckTask(const v1::Task&) const { return absl::OkStatus(); }
  virtual absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const = 0;
};

}  // namespace ingot::reward
