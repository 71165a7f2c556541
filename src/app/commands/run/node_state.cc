#include "app/commands/run/node_state.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace ingot::app {

std::string DescribeStates(const std::vector<RoleState>& states, const std::vector<RoleStatus>& unresponsive,
                           const std::map<std::string, ReportedWaits>& waits) {
  std::string text;
  for (const RoleState& state : states) {
    const bool is_unresponsive = std::any_of(unresponsive.begin(), unresponsive.end(),
                                             [&](const auto& role) { return role.name == state.name; });
    absl::StrAppend(&text, text.empty() ? "" : ", ", state.name,
                    state.restarts > 0 ? absl::StrCat(" (restarted ", state.restarts, " times)") : "",
                    state.done        ? " (done)"
                    : state.pid < 0   ? " (NOT RUNNING)"
                    : is_unresponsive ? " (NO ANSWER)"
                                      : "");
    const auto wait = waits.find(state.name);  // without its work, which changes too often for the registry
    if (wait != waits.end() && !wait->second.empty() && state.pid > 0) {
      absl::StrAppend(&text, " (waits for ", wait->second.All(), ")");
    }
  }
  return text;
}

void NodeState::Set(const std::vector<RoleState>& states) {
  base::MutexLock lock(mu_);
  states_ = states;
}

std::vector<RoleState> NodeState::States() const {
  base::MutexLock lock(mu_);
  return states_;
}

std::vector<RoleStatus> NodeState::Statuses() const {
  base::MutexLock lock(mu_);
  std::vector<RoleStatus> statuses;
  for (const RoleState& state : states_) {
    const bool well = state.done || state.pid > 0;
    absl::StatusOr<std::string> text = absl::UnavailableError("not running; its agent restarts it");
    if (well) text = state.done ? "done" : absl::StrCat("runs, restarted ", state.restarts, " times");
    statuses.push_back({state.name, "-", std::move(text)});
  }
  return statuses;
}

}  // namespace ingot::app
