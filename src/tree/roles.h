// The roles of an episode (v1::Call.role), such as the players of a game. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::tree {

// The turns (indices of calls, ascending) of each role that the policy plays in the episode, by the role's name; "" =
// calls without a role. A role is left out if none of its calls sampled from weights that follow the run: it is not
// trained.
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
