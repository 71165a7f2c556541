// Advantages of groups that branch. A leaf's row is the whole path of an episode: the turns of its trunk, recorded once
// in another episode, then its own turns.
//
//   trunk t0 t1 --+-- leaf a0        rows   t0 t1 a0        advantages   a0: of row 1, among the siblings
//                 `-- leaf b0               t0 t1 b0                     t0: the mean of what rows 1 and 2 give to t0
//
// Rows are compared with each other in two ways (advantage.h):
//
//   siblings   the rows of one trunk; rows without a trunk, of a group, are siblings too
//   group      all rows of the group
//
//   rule.branches   siblings   a leaf: among siblings; a trunk: the mean over its leaves, among siblings
//                   nested     a leaf: among siblings; a trunk: the mean over its leaves, among the group
//
// Under a mean of siblings (baselines mean and leave_one_out) the mean of siblings' advantages is 0, whatever they
// earned. So `siblings` trains no trunk. `nested` trains trunks if the group has several: a trunk is better than
// another if its leaves earn more on average. With one trunk in a group neither rule can judge it.
//
// Without trunks both rules give Advantages. Pure functions; no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/advantages/advantage.h"

namespace ingot::trainer {

// One role of an episode (role_advantage.h): its turns, and what it earned with them.
struct RoleReturn {
  std::string role;
  std::vector<size_t> turns;  // of the row
  EpisodeReturn earned;       // one credit per turn of `turns`
};

struct GroupRows {
  std::vector<EpisodeReturn> rows;                  // of the finished samples, the trunk's turns first
  std::vector<int32_t> trunks;                      // by row: the index of its trunk; -1 = none
  std::vector<size_t> trunk_turns;                  // by trunk: its number of turns
  std::vector<std::vector<RoleReturn>> roles = {};  // by row; empty = credit a row as a whole
};

struct BranchedAdvantages {
  bool equal = false;                       // GroupAdvantages::equal, of all rows
  bool filtered = false;                    // without any advantage, and the rule filters such groups
  std::vector<std::vector<double>> rows;    // by row, only its own turns
  std::vector<std::vector<double>> trunks;  // by trunk and turn; of a trunk without a row: 0
};

// With rule.by_role: AdvantagesOfRoles. REQUIRES: as Advantages; a row has at least the turns of its trunk.
std::vector<BranchedAdvantages> AdvantagesOfRows(const std::vector<GroupRows>& groups, const AdvantageRule& rule);

}  // namespace ingot::trainer
