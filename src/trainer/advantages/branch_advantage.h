// Computes advantages for groups that branch. A leaf's row is the full path of an episode: the turns of its trunk,
// which are recorded once in another episode, followed by its own turns.
//
//   trunk t0 t1 --+-- leaf a0        rows   t0 t1 a0        advantages   a0: from row 1, compared with its sibling
//                 `-- leaf b0               t0 t1 b0                     t0: the mean of t0's values in rows 1 and 2
//
// Rows are compared with each other in two ways (advantage.h):
//
//   siblings   the rows of one trunk; rows without a trunk are also siblings of each other
//   group      all rows in the group
//
//   rule.branches   siblings   leaf: compared with siblings; trunk: mean over its leaves, compared with siblings
//                   nested     leaf: compared with siblings; trunk: mean over its leaves, compared with the group
//
// Under a sibling mean (baselines mean and leave_one_out), the mean of the siblings' advantages is always 0. So
// `siblings` never trains trunks. `nested` trains trunks if the group has several: one trunk is better than another if
// its leaves earn more on average. Neither rule can evaluate a group's only trunk.
//
// Without trunks, both rules return Advantages. Pure functions that do not use torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/advantages/advantage.h"

namespace ingot::trainer {

// One role in an episode (role_advantage.h): its turns and the return that it earned.
struct RoleReturn {
  std::string role;
  std::vector<size_t> turns;  // indices into the row's turns
  EpisodeReturn earned;       // one credit per entry of `turns`
};

struct GroupRows {
  std::vector<EpisodeReturn> rows;                  // rows for the finished samples, trunk turns first
  std::vector<int32_t> trunks;                      // per row: the index of its trunk; -1 = none
  std::vector<size_t> trunk_turns;                  // per trunk: its number of turns
  std::vector<std::vector<RoleReturn>> roles = {};  // per row: its roles; empty = credit each row as a whole
};

struct BranchedAdvantages {
  bool equal = false;                       // GroupAdvantages::equal over all rows
  bool filtered = false;                    // the group has no nonzero advantage, and the rule filters such groups
  std::vector<std::vector<double>> rows;    // per row: for its own turns only
  std::vector<std::vector<double>> trunks;  // per trunk: for its turns; 0 for a trunk without rows
};

// With rule.by_role, returns AdvantagesOfRoles. REQUIRES: same as Advantages; also, a row has at least as many turns as
// its trunk.
std::vector<BranchedAdvantages> AdvantagesOfRows(const std::vector<GroupRows>& groups, const AdvantageRule& rule);

}  // namespace ingot::trainer
