#include "trainer/advantages/branch_advantage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trainer/advantages/role_advantage.h"

namespace ingot::trainer {
namespace {

// Computes the advantages of every row, compared within sets of rows.
class ComparedRows {
 public:
  // Rows in a group with the same `set_of(group, row)` are compared with each other.
  template <typename SetOf>
  ComparedRows(const std::vector<GroupRows>& groups, const AdvantageRule& rule, const SetOf& set_of) {
    std::vector<std::vector<EpisodeReturn>> sets;
    for (const GroupRows& group : groups) {
      std::map<int32_t, size_t> known;
      places_.emplace_back();
      for (size_t row = 0; row < group.rows.size(); ++row) {
        const auto [set, is_new] = known.try_emplace(set_of(group, row), sets.size());
        if (is_new) sets.emplace_back();
        places_.back().push_back({set->second, sets[set->second].size()});
        sets[set->second].push_back(group.rows[row]);
      }
    }
    sets_ = Advantages(sets, rule);
  }

  const std::vector<double>& Of(size_t group, size_t row) const {
    const auto [set, index] = places_[group][row];
    return sets_[set].turns[index];
  }
  bool Equal(size_t group) const {  // for the set of the group's first row
    return !places_[group].empty() && sets_[places_[group][0].first].equal;
  }

 private:
  std::vector<GroupAdvantages> sets_;
  std::vector<std::vector<std::pair<size_t, size_t>>> places_;  // [group][row]: the set and the index in it
};

bool AllZero(const BranchedAdvantages& group) {
  for (const auto* part : {&group.rows, &group.trunks}) {
    for (const std::vector<double>& turns : *part) {
      if (std::any_of(turns.begin(), turns.end(), [](double a) { return a != 0; })) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<BranchedAdvantages> AdvantagesOfRows(const std::vector<GroupRows>& groups, const AdvantageRule& rule) {
  if (rule.by_role) return AdvantagesOfRoles(groups, rule);
  const ComparedRows siblings(groups, rule, [](const GroupRows& group, size_t row) { return group.trunks[row]; });
  const ComparedRows whole(groups, rule, [](const GroupRows&, size_t) { return 0; });
  const ComparedRows& of_trunks = rule.branches == "siblings" ? siblings : whole;
  std::vector<BranchedAdvantages> all;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupRows& group = groups[g];
    BranchedAdvantages out;
    out.equal = whole.Equal(g);
    std::vector<int> leaves(group.trunk_turns.size(), 0);
    for (const size_t turns : group.trunk_turns) out.trunks.emplace_back(turns, 0.0);
    for (size_t row = 0; row < group.rows.size(); ++row) {
      const int32_t trunk = group.trunks[row];
      const size_t shared = trunk < 0 ? 0 : group.trunk_turns[static_cast<size_t>(trunk)];
      const std::vector<double>& own = siblings.Of(g, row);
      out.rows.emplace_back(own.begin() + static_cast<std::ptrdiff_t>(shared), own.end());
      if (trunk < 0) continue;
      ++leaves[static_cast<size_t>(trunk)];
      for (size_t t = 0; t < shared; ++t) out.trunks[static_cast<size_t>(trunk)][t] += of_trunks.Of(g, row)[t];
    }
    for (size_t trunk = 0; trunk < leaves.size(); ++trunk) {
      for (double& advantage : out.trunks[trunk]) advantage /= std::max(leaves[trunk], 1);
    }
    out.filtered = rule.filter_zero_variance && AllZero(out);
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace ingot::trainer
