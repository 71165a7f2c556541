// Configures the reward stage: the `rewards` section of the YAML.
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

// Determines when a term counts. The time t is the version that was live when the group was admitted, divided by the
// run's total steps.
struct TermSchedule {
  double from = 0;
  double until = 1;  // must be at least `from`
  bool linear = false;
  int64_t phase_steps = 0;
  int32_t phase = -1;

  // Returns the factor applied to the weight at this version, in [0, 1].
  double At(int64_t version, int64_t total_steps) const;
};

// Returns the default options of every kind, by type (term_kinds.cc).
std::map<std::type_index, std::any> DefaultsOfKinds();

// A term's options. Each kind of term has an options struct next to its class. `Of` looks it up by type:
//
//   term.Of<LengthOptions>().correct_above      (terms/length.h)
struct TermOptions {
  std::string kind = "outcome";
  std::string name;  // empty = same as `kind`
  double weight = 1;
  TermSchedule schedule;
  std::vector<std::string> domains;  // empty = all
  // The options for all kinds, because a configuration may set a kind's options before it sets the kind.
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

  // Returns whether the reward is only the posted outcome. If so, no server is called.
  bool outcome_alone() const;
  // Returns false if all terms give values only to tokens, like `teacher`. In that case, every reward is 0 and is not
  // trained on.
  bool gives_rewards() const;
  // Returns the names of the terms that give values to tokens. With them, groups with equal rewards are useful as well.
  std::vector<std::string> token_terms() const;
  // Returns INVALID_ARGUMENT with the option, its value, and the allowed values. Also rejects duplicate names, and
  // weights that cancel each other in otherwise equal terms.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, TermSchedule& options);
void Bind(base::Schema& schema, TermOptions& options);
void Bind(base::Schema& schema, RewardOptions& options);

}  // namespace ingot::reward
