#include "reward/terms/stages.h"

#include <algorithm>

#include "base/utf8.h"
#include "tree/call_end.h"

namespace ingot::reward {
namespace {

using base::json::value;

absl::Status BadForm(const value& stages) {
  return absl::InvalidArgumentError(
      absl::StrCat("fact 'stages' is ", base::CutText(base::PrintJson(stages), 200),
                   ": expected a list like [{\"main\": 1, \"sub\": [3, 5]}] with counts of model calls"));
}

// Returns nullopt if `number` is not a valid number of calls.
std::optional<int64_t> CallsIn(const value& number) {
  constexpr int64_t kMax = 1 << 20;
  if (!number.is_int64() || number.get_int64() < 0 || number.get_int64() > kMax) return std::nullopt;
  return number.get_int64();
}

std::optional<Stage> StageIn(const value& entry) {
  const value* main = base::Find(entry, "main");
  if (main == nullptr) return std::nullopt;
  const std::optional<int64_t> calls = CallsIn(*main);
  if (!calls.has_value()) return std::nullopt;
  Stage stage{.main = *calls, .sub = {}};
  const value* sub = base::Find(entry, "sub");
  if (sub == nullptr) return stage;
  if (!sub->is_array()) return std::nullopt;
  for (const value& one : sub->get_array()) {
    const std::optional<int64_t> of_agent = CallsIn(one);
    if (!of_agent.has_value()) return std::nullopt;
    stage.sub.push_back(*of_agent);
  }
  return stage;
}

}  // namespace

int64_t Stage::working() const {
  return std::count_if(sub.begin(), sub.end(), [](int64_t calls) { return calls > 0; });
}

absl::StatusOr<std::vector<Stage>> StagesOf(const EpisodeFacts& episode) {
  int64_t by_policy = 0, by_others = 0;
  for (const CallFacts& call : episode.calls) {
    if (!tree::BrokeOff(*call.record)) ++(call.policy ? by_policy : by_others);
  }
  INGOT_ASSIGN_OR_RETURN(const auto posted, episode.Fact("stages"));
  if (!posted.has_value() && by_others == 0) return std::vector<Stage>{{.main = by_policy, .sub = {}}};
  if (!posted.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the record has ", by_others, " calls of sub-agents, but no fact 'stages' was posted"));
  }
  if (!posted->is_array()) return BadForm(*posted);
  std::vector<Stage> stages;
  int64_t main = 0, sub = 0;
  for (const value& entry : posted->get_array()) {
    std::optional<Stage> stage = StageIn(entry);
    if (!stage.has_value()) return BadForm(*posted);
    main += stage->main;
    for (const int64_t calls : stage->sub) sub += calls;
    stages.push_back(*std::move(stage));
  }
  if (main == by_policy && sub == by_others) return stages;
  return absl::InvalidArgumentError(absl::StrCat("fact 'stages' has ", main, " main steps and ", sub,
                                                 " of sub-agents; the record has ", by_policy,
                                                 " answered calls of the policy and ", by_others, " of other models"));
}

}  // namespace ingot::reward
