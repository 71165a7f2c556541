#include "trainer/advantages/role_advantage.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ingot::trainer {
namespace {

// One role in one row.
struct Part {
  size_t group = 0;
  size_t row = 0;
  const RoleReturn* role = nullptr;
};
using Set = std::vector<Part>;  // one role in the rows of one group, which are compared with each other

std::map<std::string, std::vector<Set>> SetsByRole(const std::vector<GroupRows>& groups, const AdvantageRule& rule) {
  const bool within_group = rule.baseline != "none" && rule.baseline != "batch";
  std::map<std::string, std::vector<Set>> sets;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::map<std::string, Set> of_group;
    for (size_t row = 0; row < groups[g].rows.size(); ++row) {
      for (const RoleReturn& role : groups[g].roles[row]) of_group[role.role].push_back({g, row, &role});
    }
    for (auto& [role, set] : of_group) {
      const bool alone = set.size() == 1 && groups[g].rows.size() > 1;
      if (alone && within_group) continue;
      sets[role].push_back(std::move(set));
    }
  }
  return sets;
}

bool AllZero(const BranchedAdvantages& group) {
  return std::all_of(group.rows.begin(), group.rows.end(), [](const std::vector<double>& turns) {
    return std::all_of(turns.begin(), turns.end(), [](double a) { return a == 0; });
  });
}

}  // namespace

std::vector<BranchedAdvantages> AdvantagesOfRoles(const std::vector<GroupRows>& groups, const AdvantageRule& rule) {
  std::vector<BranchedAdvantages> all(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    all[g].equal = groups[g].rows.size() > 1;
    for (const EpisodeReturn& row : groups[g].rows) all[g].rows.emplace_back(row.credits.size(), 0.0);
  }
  for (const auto& [role, sets] : SetsByRole(groups, rule)) {
    std::vector<std::vector<EpisodeReturn>> returns;
    for (const Set& set : sets) {
      returns.emplace_back();
      for (const Part& part : set) returns.back().push_back(part.role->earned);
    }
    const std::vector<GroupAdvantages> found = Advantages(returns, rule);
    for (size_t s = 0; s < sets.size(); ++s) {
      if ((sets[s].size() > 1 || groups[sets[s][0].group].rows.size() > 1) && !found[s].equal)
        all[sets[s][0].group].equal = false;
      for (size_t i = 0; i < sets[s].size(); ++i) {
        const Part& part = sets[s][i];
        std::vector<double>& turns = all[part.group].rows[part.row];
        for (size_t t = 0; t < part.role->turns.size(); ++t) turns[part.role->turns[t]] = found[s].turns[i][t];
      }
    }
  }
  for (BranchedAdvantages& group : all) group.filtered = rule.filter_zero_variance && AllZero(group);
  return all;
}

}  // namespace ingot::trainer
