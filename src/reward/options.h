// The configuration of the reward stage: `rewards` in the YAML.
#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <string>
#include <typeindex>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::reward {

// When a term counts. Time is t = the version that was live at the group's admission, over the run's steps.
struct TermSchedule {
  double from = 0;
  double until = 1;  // at least `from`
  bool linear = false;
  int64_t phase_steps = 0;
  int32_t phase = -1;

  // The factor of the weight at this version, in [0, 1].
  double At(int64_t version, int64_t total_steps) const;
};

// The options of every kind, with their defaults, by type (term_kinds.cc).
std::map<std::type_index, std::any> DefaultsOfKinds();

// The options of a term. The options of a kind are a struct next to the kind's term, which `Of` finds by its type:
//
//   term.Of<LengthOptions>().correct_above      (terms/length.h)
struct TermOptions {
  std::string kind = "outcome";
  std::string name;  // empty = the kind
  double weight = 1;
  TermSchedule schedule;
  std::vector<std::string> domains;  // empty = all
  // Of all kinds, because a configuration may set a kind's options before the kind.
  std::map<std::type_index, std::any> of_kinds = DefaultsOfKinds();

  const std::string& Name() const { return name.empty() ? kind : name; }
  template <typename Options>
  Options& Of() {
    return std::any_cast<Options&>(of_kinds.at(typeid(Options)));
  }
  template <typename Options>
  const Options& Of() const {
    return std::any_cast<const Options&>(of_kinds.at(typeid(Options)));
  }
};

struct RewardOptions {
  std::vector<TermOptions> terms;  // empty = only the outcome, with weight 1
  double deadline_s = 600;
  int32_t concurrency = 4;
  int32_t give_up_groups = 16;

  // True = the reward is the posted outcome, and no server is asked.
  bool outcome_alone() const;
  // False = the terms give values to tokens only, as `teacher` does: every reward is 0, and is not what the run learns.
  bool gives_rewards() const;
  // The names of the terms that give values to tokens, by which groups of equal rewards teach too.
  std::vector<std::string> token_terms() const;
  // INVALID_ARGUMENT names the option, its value and the allowed values. It also rejects names used twice, and weights
  // that cancel each other in otherwise equal terms.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, TermSchedule& options);
void Bind(base::Schema& schema, TermOptions& options);
void Bind(base::Schema& schema, RewardOptions& options);

}  // namespace ingot::reward
