#include "tree/strands.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tree/forest.h"
#include "tree/makers.h"

namespace ingot::tree {
namespace {

// The packed rows of the keys of a strand's path, by depth.
std::vector<int32_t> PathOf(const StrandPlan& plan, const Strand& strand) {
  std::vector<int32_t> rows;
  for (int32_t r = 0; r < strand.runs; ++r) {
    const PathRun& run = plan.runs[strand.first_run + r];
    EXPECT_EQ(run.depth, static_cast<int32_t>(rows.size())) << "runs leave a gap or overlap";
    const int32_t end = r + 1 < strand.runs ? plan.runs[strand.first_run + r + 1].depth : strand.keys();
    for (int32_t depth = run.depth; depth < end; ++depth) rows.push_back(run.row + depth - run.depth);
  }
  return rows;
}

// Against the mask alone: query i sees key j exactly when j <= i < visible_end[j].
void CheckAgainstMask(const PackedForest& forest, int32_t first_query) {
  const StrandPlan plan = PlanStrands(forest.positions, first_query);
  int32_t next = first_query;
  for (const Strand& strand : plan.strands) {
    ASSERT_EQ(strand.first_query, next) << "rows are left out or come twice";
    ASSERT_GT(strand.queries, 0);
    next += strand.queries;
    const std::vector<int32_t> path = PathOf(plan, strand);
    for (int32_t i = 0; i < strand.queries; ++i) {
      const int32_t query = strand.first_query + i;
      std::vector<int32_t> seen;
      for (int32_t j = 0; j <= query; ++j) {
        if (query < forest.visible_end[j]) seen.push_back(j);
      }
      ASSERT_EQ(seen, std::vector<int32_t>(path.begin(), path.begin() + strand.depth + i + 1)) << "query " << query;
    }
  }
  EXPECT_EQ(next, static_cast<int32_t>(forest.size()));
}

TEST(StrandsTest, TheDrawingInTheHeader) {
  const StrandPlan plan = PlanStrands(std::vector<int32_t>{0, 1, 2, 3, 4, 4, 1});
  ASSERT_EQ(plan.strands.size(), 3u);
  EXPECT_EQ(PathOf(plan, plan.strands[0]), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(PathOf(plan, plan.strands[1]), (std::vector<int32_t>{0, 1, 2, 3, 5}));
  EXPECT_EQ(PathOf(plan, plan.strands[2]), (std::vector<int32_t>{0, 6}));
  EXPECT_EQ(plan.runs.size(), 5u);
}

TEST(StrandsTest, AnEmptyForestHasNoStrands) {
  EXPECT_TRUE(PlanStrands({}).strands.empty());
  EXPECT_TRUE(PlanStrands(std::vector<int32_t>{0, 1, 0}, 3).strands.empty()) << "keys alone";
}

TEST(StrandsTest, AChainOfTurnsIsOneStrandHoweverManyCallsItHas) {
  std::vector<CallPath> calls;
  std::vector<int32_t> history = {1, 2, 3};
  for (int32_t turn = 0; turn < 50; ++turn) {
    calls.push_back(MakeCall(history, {turn, turn + 1}));
    history = calls.back().Tokens();
    history.push_back(7);
  }
  std::vector<int32_t> all(calls.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  const StrandPlan plan = PlanStrands(PackForest(calls, all)->positions);
  EXPECT_EQ(plan.strands.size(), 1u);
  EXPECT_EQ(plan.runs.size(), 1u);
}

TEST(StrandsTest, PathsEqualTheMaskOnRandomForestsCutAnywhere) {
  uint64_t draws = 0;
  const auto below = [&](int64_t bound) { return static_cast<int32_t>(base::DeriveSeed(1, ++draws) % bound); };
  for (int round = 0; round < 200; ++round) {
    std::vector<CallPath> calls;
    std::vector<int32_t> indices;
    const int32_t count = 1 + below(9), alphabet = 1 + below(3);
    for (int32_t c = 0; c < count; ++c) {
      std::vector<int32_t> context, sampled;
      for (int32_t n = 1 + below(20); n > 0; --n) context.push_back(below(alphabet));
      for (int32_t n = 1 + below(6); n > 0; --n) sampled.push_back(below(alphabet));
      calls.push_back(MakeCall(context, sampled));
      indices.push_back(c);
    }
    const auto forest = PackForest(calls, indices);
    ASSERT_TRUE(forest.ok()) << forest.status();
    CheckAgainstMask(*forest, 0);
    CheckAgainstMask(*forest, below(static_cast<int64_t>(forest->size()) + 1));
  }
}

}  // namespace
}  // namespace ingot::tree
