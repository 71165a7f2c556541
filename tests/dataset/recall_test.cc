#include "dataset/recall.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ingot::dataset {
namespace {

struct One {
  std::string id;
  double recall;
};

std::vector<One> Many(int count, double recall) {
  std::vector<One> out;
  for (int i = 0; i < count; ++i) out.push_back({absl::StrCat("e", recall, "-", i), recall});
  return out;
}

// The kept ones of `groups`, by group; zeros come in the order given.
std::vector<int> Kept(const std::vector<std::vector<One>>& groups, RecallRule rule = {}) {
  RecallChoice choice(rule);
  for (const auto& group : groups) {
    for (const One& one : group) choice.Add(one.id, one.recall);
  }
  choice.Decide();
  std::vector<int> kept;
  for (const auto& group : groups) {
    kept.push_back(0);
    for (const One& one : group) kept.back() += choice.Keeps(one.id, one.recall) ? 1 : 0;
  }
  return kept;
}

TEST(RecallChoice, KeepsHighRecallWhole) {
  EXPECT_EQ(Kept({Many(200, 1), Many(200, 0.8)}), (std::vector<int>{200, 200}));
}

TEST(RecallChoice, KeepsLowRecallInProportion) {
  const std::vector<int> kept = Kept({Many(4000, 0.6), Many(4000, 0.4), Many(4000, 0.2)});
  // Binomial, 4,000 draws of 0.75, 0.5 and 0.25: standard deviations 27, 32 and 27.
  EXPECT_NEAR(kept[0], 3000, 150);
  EXPECT_NEAR(kept[1], 2000, 150);
  EXPECT_NEAR(kept[2], 1000, 150);
}

TEST(RecallChoice, HoldsTheShareOfRecallZeroInAnyOrder) {
  // z <= 0.05 (95 + z): 5.
  EXPECT_EQ(Kept({Many(500, 0), Many(95, 1)}), (std::vector<int>{5, 95}));
  EXPECT_EQ(Kept({Many(95, 1), Many(500, 0)}), (std::vector<int>{95, 5}));
  EXPECT_EQ(Kept({Many(94, 1), Many(500, 0)}), (std::vector<int>{94, 4}));
  EXPECT_EQ(Kept({Many(95, 1), Many(3, 0)}), (std::vector<int>{95, 3}));
  EXPECT_EQ(Kept({Many(500, 0)}), (std::vector<int>{0}));
  EXPECT_EQ(Kept({Many(95, 1), Many(500, 0)}, {.high = 0.8, .zero_share = 0}), (std::vector<int>{95, 0}));
}

}  // namespace
}  // namespace ingot::dataset
