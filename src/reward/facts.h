// The facts of a complete group that reward terms read: views of its stored trees, and sums that several terms need.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

struct CallFacts {
  const v1::Call* record = nullptr;
  int64_t sampled_tokens = 0;
  int64_t prompt_tokens = 0;  // of the whole prompt
  // The policy in training sampled it, or its pinned version in an evaluation; false = another model did. Sub-agents on
  // a pinned version count as the policy in an evaluation.
  bool policy = false;

  const std::string& id() const { return record->call_id(); }
};

struct EpisodeFacts {
  const v1::EpisodeTree* tree = nullptr;  // its newest attempt, FINISHED
  std::vector<CallFacts> calls;           // by Call.sequence
  int64_t sampled_tokens = 0;             // of the policy's calls
  // From opening to end, minus the time that calls waited for the engine: arrival to first token while nothing else of
  // the episode ran. 0 = unknown.
  double seconds = 0;

  const v1::Episode& record() const { return tree->episode(); }
  // The reward that was posted for the whole episode; 0 = no reward was posted.
  double outcome() const { return record().reward(); }
  // Calls that the policy in training sampled.
  int64_t policy_calls() const;
  // A signal that was posted with the episode; `absent` = the value if it was not posted.
  double Signal(const std::string& name, double absent = 0) const;
  // A fact that was posted with the episode; nullopt = not posted. INVALID_ARGUMENT: it is not JSON.
  absl::StatusOr<std::optional<base::json::value>> Fact(const std::string& name) const;
};

struct GroupFacts {
  const v1::Group* group = nullptr;
  std::vector<EpisodeFacts> episodes;  // the finished ones, by sample index
  int64_t version = 0;                 // live at the group's admission
  int64_t total_steps = 0;             // of the run; > 0
  // Measures of earlier judged groups of the same task (TermValue.measures), by the names of term and measure. The
  // first number counts (reward/history.h). A term that estimates something once per task uses it.
  std::map<std::string, std::map<std::string, double>> history;

  // A number of `history`; nullopt = no earlier group measured it.
  std::optional<double> Measured(const std::string& term, const std::string& measure) const;

  // The domain of the group's task; "default" if the task does not name a domain.
  std::string domain() const;
};

// Without history. REQUIRES: `group` outlives the facts. DATA_LOSS names a call's segment that the group lacks.
absl::StatusOr<GroupFacts> FactsOf(const v1::Group& group, int64_t version, int64_t total_steps);

// The ids that the call sampled, in order. REQUIRES: FactsOf accepted the tree.
std::vector<int32_t> SampledIds(const v1::EpisodeTree& tree, const v1::Call& call);

}  // namespace ingot::reward
