// A RewardTerm computes a number for an episode that the run tries to maximize. An episode's reward is the weighted sum
// of its terms (reward/rule.h). A term receives the entire group because some terms, such as length and completion
// time, are relative to it.
//
// A new term needs a file in src/reward/terms/ with its options, their keys, and its source (paper, equation), a row in
// the table in reward/term_kinds.cc, and a test with values computed by hand. docs/guide/rewards.md lists the terms.
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

// The values that a term assigns to one episode.
struct TermResult {
  double value = 0;                     // value for the entire episode; finite
  std::map<std::string, double> calls;  // values for single calls by call_id; finite
  // Advantages for single tokens by call_id, one for each token that the call sampled; finite (TermValue.tokens).
  std::map<std::string, std::vector<float>> tokens;
  std::string detail;                      // human-readable
  std::map<std::string, double> measures;  // numbers besides the value (TermValue.measures); finite
};

class RewardTerm {
 public:
  virtual ~RewardTerm() = default;

  // Returns whether the term reads GroupFacts.history.
  virtual bool uses_history() const { return false; }

  // Returns one result per episode of `group`, in order. An episode's result is an error if the term could not judge
  // it. Such an episode is excluded from the group and counted. It never gets a 0. If the term does not apply to the
  // group's task, Judge itself returns an error, and the group fails. Thread safe. Pure, except that terms that call
  // servers (judge, external, teacher) block up to their timeouts.
  virtual absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const = 0;
};

// A term that judges one episode at a time.
class EpisodeTerm : public RewardTerm {
 public:
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const final;

 protected:
  // Returns FAILED_PRECONDITION if the term does not apply to this task.
  virtual absl::Status CheckTask(const v1::Task&) const { return absl::OkStatus(); }
  virtual absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const = 0;
};

}  // namespace ingot::reward
