// Computes advantages per role. Each role in an episode is credited with its own return, which is compared with the
// returns of the same role in the group's other samples.
//
//   sample 1   white +1, black -1      white: +1 and -1, mean 0      advantages +1 and -1
//   sample 2   white -1, black +1      black: -1 and +1, mean 0      advantages -1 and +1
//
// Both episodes above have a return of 0. Pure functions that do not use torch.
#pragma once

#include <vector>

#include "trainer/advantages/branch_advantage.h"

namespace ingot::trainer {

// Computes Advantages once per role, over the samples in each group that have the role. So batch means and deviations
// are also per role. With a group baseline, a role that appears in only one of several samples gets 0, because there is
// nothing to compare it with. Turns that do not belong to a role in their row get 0. A group's `equal` is set if it has
// several rows and every role that appears in several rows has equal returns. REQUIRES: same as Advantages; also, there
// are no trunks, and GroupRows::roles has one entry per row.
std::vector<BranchedAdvantages> AdvantagesOfRoles(const std::vector<GroupRows>& groups, const AdvantageRule& rule);

}  // namespace ingot::trainer
