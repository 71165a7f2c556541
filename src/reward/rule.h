// The rule: the terms of a run with their weights, and the grades that they give to a group.
//
//   reward of an episode = sum over the terms of weight(t, domain) * value
//   reward of a call     = the same sum of the terms' values for that call
//
// Every value is stored separately with its effective weight, so that a group can be scored again with other weights.
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

// The grades of a group, by sample index.
struct GroupGrades {
  std::map<int32_t, v1::Grade> grades;
  std::map<int32_t, std::string> ungraded;  // why a finished episode could not be judged; valid UTF-8
  std::string failed_term;  // the term that failed in the first of those; empty = every episode was judged
};

class Rule {
 public:
  // `configuration`: the text of the options, from which `key` is made. `parts`: the servers that terms ask. Same
  // errors as RewardOptions::Validate.
  static absl::StatusOr<Rule> Make(const RewardOptions& options, std::string_view configuration,
                                   const TermParts& parts = {});

  // Judges every finished episode of the group. It skips a term with weight 0 for this group. An episode that one term
  // cannot judge has no grade. Errors, with the term's name as their cause (base/cause.h): FAILED_PRECONDITION: a term
  // does not apply to the task. UNAVAILABLE, DEADLINE_EXCEEDED: a term's server is down or late, and nothing is
  // decided.
  absl::StatusOr<GroupGrades> Apply(const GroupFacts& group) const;

  // True = a term reads GroupFacts.history.
  bool uses_history() const;
  // True = a term that judges this group reads GroupFacts.history, which does not have the term's measures yet.
  bool LacksMeasures(const GroupFacts& group) const;

  // Content key of the terms' configuration: Grade.rule.
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

// What the trainer compares of a group's episodes (trainer.advantage_*).
struct ReturnComparison {
  std::string credit = "outcome";
  bool by_terms = false;    // each term by itself, instead of their sum
  bool by_role = false;     // each role that the policy plays by itself (tree/roles.h)
  bool lone_roles = false;  // with by_role: also train a role that only one sample has
};

// True if a group has nothing to train on: the compared returns are equal, no token has its own advantage and, with
// `credit` "reward_to_go", no call before an episode's (or a role's) last call earned anything. A group of one episode
// is never equal.
bool NothingToTrain(const GroupGrades& grades, const v1::Group& group, const ReturnComparison& by);

}  // namespace ingot::reward
