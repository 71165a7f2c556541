// Grades groups by a rule, which consists of a run's terms and their weights.
//
//   reward of an episode = sum over the terms of weight(t, domain) * value
//   reward of a call     = the same sum, using the terms' values for that call
//
// Every value is stored separately with its effective weight, so groups can be scored again with other weights.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "reward/facts.h"
#include "reward/options.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

// A group's grades by sample index.
struct GroupGrades {
  std::map<int32_t, v1::Grade> grades;
  std::map<int32_t, std::string> ungraded;  // why a finished episode could not be judged, in valid UTF-8
  std::string failed_term;  // the term that failed for the first such episode; empty = all episodes were judged
};

class Rule {
 public:
  // `configuration` is the options as text, which determines `key`. `parts` has the servers that terms call. Returns
  // the errors of RewardOptions::Validate.
  static absl::StatusOr<Rule> Make(const RewardOptions& options, std::string_view configuration,
                                   const TermParts& parts = {});

  // Judges every finished episode of the group. Skips terms whose weight is 0 for this group. If a term cannot judge an
  // episode, the episode gets no grade. The term's name is the cause of errors (base/cause.h). Returns
  // FAILED_PRECONDITION if a term does not apply to the task. Returns UNAVAILABLE or DEADLINE_EXCEEDED, without grading
  // any episode, if a term's server is down or slow.
  absl::StatusOr<GroupGrades> Apply(const GroupFacts& group) const;

  // Returns whether any term uses GroupFacts.history.
  bool uses_history() const;
  // Returns whether a term that judges this group uses GroupFacts.history but does not have its measures yet.
  bool LacksMeasures(const GroupFacts& group) const;

  // Returns a content key for the terms' configuration (Grade.rule).
  const std::string& key() const { return key_; }

 private:
  struct WeightedTerm {
    TermOptions options;
    std::shared_ptr<const RewardTerm> term;
  };
  double WeightOf(const WeightedTerm& term, const GroupFacts& group) const;

  std::vector<WeightedTerm> terms_;
  std::string key_;
};

// Selects what the trainer compares among a group's episodes (trainer.advantage_*).
struct ReturnComparison {
  std::string credit = "outcome";
  bool by_terms = false;    // compares each term separately instead of their sum
  bool by_role = false;     // compares each role that the policy plays separately (tree/roles.h)
  bool lone_roles = false;  // with by_role: also trains roles that occur in only one sample
};

// Returns whether a group has nothing to train on. This is true if the compared returns are equal, no token has its own
// advantage, and, with `credit` "reward_to_go", only the last call of each episode (or role) earned anything. A group
// with one episode always has something to train on.
bool NothingToTrain(const GroupGrades& grades, const v1::Group& group, const ReturnComparison& by);

}  // namespace ingot::reward
