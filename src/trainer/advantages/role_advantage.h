// Advantages of roles: each role of an episode is credited with its own return, compared with the returns of the same
// role in the other samples of the group.
//
//   sample 1   white +1, black -1      white: +1 and -1, mean 0      advantages +1 and -1
//   sample 2   white -1, black +1      black: -1 and +1, mean 0      advantages -1 and +1
//
// The returns of both episodes are 0. Pure functions; no torch.
#pragma once

#include <vector>

#include "trainer/advantages/branch_advantage.h"

namespace ingot::trainer {

// Computes Advantages per role over the groups, each with the samples that have the role. So a mean or deviation of the
// batch is also per role. With a baseline of the group, a role that only one of several samples has gets 0: there is
// nothing to compare it with. Turns of a row that belong to none of its roles have 0.
// A group is equal if it has several rows, and every role of several rows has equal returns.
// REQUIRES: as Advantages; no trunks; GroupRows::roles has an entry per row.
std::vector<BranchedAdvantages> AdvantagesOfRoles(const std::vector<GroupRows>& groups, const AdvantageRule& rule);

}  // namespace ingot::trainer
