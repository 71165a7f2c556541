// Collects facts about a complete group for reward terms: views of its stored trees, and sums that several terms need.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

struct CallFacts {
  const v1::Call* record = nullptr;
  int64_t sampled_tokens = 0;
  int64_t prompt_tokens = 0;  // tokens in the full prompt
  // True = sampled by the policy in training or, in an evaluation or a collection, by the model under evaluation. False
  // = sampled by another model, such as a sub-agent's.
  bool policy = false;

  const std::string& id() const { return record->call_id(); }
};

struct EpisodeFacts {
  const v1::EpisodeTree* tree = nullptr;  // the newest attempt, which is FINISHED
  std::vector<CallFacts> calls;           // sorted by Call.sequence
  int64_t sampled_tokens = 0;             // in the policy's calls
  // Seconds from opening to end, minus the time that calls waited for the engine. A call waits from its arrival until
  // its first token if nothing else in the episode is running. 0 = unknown.
  double seconds = 0;

  const v1::Episode& record() const { return tree->episode(); }
  // Returns the reward posted for the entire episode; 0 = none was posted.
  double outcome() const { return record().reward(); }
  // Returns the number of calls that the policy sampled.
  int64_t policy_calls() const;
  // Returns a signal posted with the episode, or `absent` if it was not posted.
  double Signal(const std::string& name, double absent = 0) const;
  // Returns a fact posted with the episode, or nullopt if it was not posted. Returns INVALID_ARGUMENT if it is not
  // JSON.
  absl::StatusOr<std::optional<base::json::value>> Fact(const std::string& name) const;
};

struct GroupFacts {
  const v1::Group* group = nullptr;
  std::vector<EpisodeFacts> episodes;  // the finished episodes, by sample index
  int64_t version = 0;                 // version that was live when the group was admitted
  int64_t total_steps = 0;             // the run's total steps; > 0
  // Measures from the task's earlier groups (TermValue.measures), by term name and measure name. Only each measure's
  // first value is kept (reward/history.h). Used by terms that estimate something once per task.
  std::map<std::string, std::map<std::string, double>> history;

  // Returns a value from `history`, or nullopt if no earlier group measured it.
  std::optional<double> Measured(const std::string& term, const std::string& measure) const;

  // Returns the domain of the group's task, or "default" if the task has none.
  std::string domain() const;
};

// Creates the facts with an empty history. A training call is the policy's if its model follows training. In an
// evaluation, all weights are fixed, so a call is the policy's unless it named a model in `other_models`, the models
// that do not follow training. Returns DATA_LOSS, naming the segment, if the group lacks a call's segment. REQUIRES:
// `group` outlives the facts.
absl::StatusOr<GroupFacts> FactsOf(const v1::Group& group, int64_t version, int64_t total_steps,
                                   const std::set<std::string>& other_models = {});

// Returns the ids that the call sampled, in order. REQUIRES: FactsOf accepted the tree.
std::vector<int32_t> SampledIds(const v1::EpisodeTree& tree, const v1::Call& call);

}  // namespace ingot::reward
