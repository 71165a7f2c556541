// Finds an episode's roles (v1::Call.role), such as the players in a game. Pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns the turns (indices of calls, ascending) of each role that the policy plays in the episode, by role name. "" =
// calls without a role. Omits roles that are not being trained, that is, none of their calls sampled from the run's
// current weights.
inline std::map<std::string, std::vector<int>> TurnsByRole(const v1::EpisodeTree& tree) {
  std::map<std::string, std::vector<int>> turns;
  std::map<std::string, bool> trained;
  for (int t = 0; t < tree.calls_size(); ++t) {
    const v1::Call& call = tree.calls(t);
    turns[call.role()].push_back(t);
    trained[call.role()] |= call.weights() == v1::WEIGHTS_FOLLOW && !call.encoded();
  }
  std::erase_if(turns, [&](const auto& of_role) { return !trained.at(of_role.first); });
  return turns;
}

}  // namespace ingot::tree
