// Cutting a packed forest: the parts together are the forest, and each part has all keys that its rows see.
#include "tree/cut.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <tuple>

#include "makers.h"
#include "tree/documents.h"

namespace ingot::tree {
namespace {

PackedForest Pack(const std::vector<CallPath>& calls) {
  auto forest = PackForest(calls, OrderChainFirst(calls));
  EXPECT_TRUE(forest.ok()) << forest.status();
  return *std::move(forest);
}

// The packed rows of a part's keys.
std::vector<int32_t> KeyRows(const std::vector<ForestPart>& parts, const ForestPart& part) {
  std::vector<int32_t> rows;
  for (const ForestPart::Source& source : part.prefix) {
    const ForestPart& from = parts[static_cast<size_t>(source.part)];
    for (int32_t i = 0; i < source.rows; ++i) rows.push_back(from.begin + from.exports[static_cast<size_t>(i)]);
  }
  for (int32_t row = part.begin; row < part.end; ++row) rows.push_back(row);
  return rows;
}

//  a b c d -- e f          rows 0 1 2 3, 4 5
//      |`---- g h                       6 7
//      `----- i j                       8 9   (below b)
TEST(CutForest, WorkedByHand) {
  PackedForest forest;
  forest.token_ids.assign(10, 0);
  forest.visible_end = {10, 10, 8, 8, 6, 6, 8, 8, 10, 10};
  forest.entries = {{3, 0, 0, 0}, {4, 0, 0, 1}, {3, 0, 1, 0}, {9, 0, 2, 0}};  // row, token, call, offset
  const auto parts = CutForest(forest, 4);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].end, 4);
  EXPECT_EQ(parts[0].exports, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(parts[0].last_user, 2);
  EXPECT_EQ(parts[1].end, 8);  // e f and g h end within it
  EXPECT_EQ(parts[1].prefix_rows, 4);
  EXPECT_TRUE(parts[1].exports.empty());
  EXPECT_EQ(parts[1].visible_end, (std::vector<int32_t>{8, 8, 8, 8, 6, 6, 8, 8}));
  EXPECT_EQ(parts[1].visible_pairs, 4 * 4 + 3 + 3);
  EXPECT_EQ(parts[2].prefix_rows, 2);
  EXPECT_EQ(parts[2].prefix.size(), 1u);
  EXPECT_EQ(parts[2].visible_end, (std::vector<int32_t>{4, 4, 4, 4}));
  EXPECT_EQ(parts[0].loss_rows, 1);  // two entries of one row
  EXPECT_EQ(parts[1].loss_rows, 1);
  EXPECT_EQ(parts[2].loss_rows, 1);
  // e and g are children of d, i is b's.
  EXPECT_EQ(parts[0].branches, (std::vector<int32_t>{1, 3}));
  const auto crossings = [&](size_t p) {
    std::vector<std::array<int32_t, 3>> all;
    for (const ForestPart::Crossing& c : parts[p].crossings) all.push_back({c.row, c.part, c.branch});
    return all;
  };
  EXPECT_TRUE(crossings(0).empty());
  EXPECT_EQ(crossings(1), (std::vector<std::array<int32_t, 3>>{{0, 0, 1}, {2, 0, 1}}));
  EXPECT_EQ(crossings(2), (std::vector<std::array<int32_t, 3>>{{0, 0, 0}}));
  EXPECT_EQ(ParentsIn(forest, parts[0]), (std::vector<int32_t>{kRoot, 0, 1, 2}));
  EXPECT_EQ(ParentsIn(forest, parts[1]), (std::vector<int32_t>{~0, 0, ~1, 2}));
  EXPECT_EQ(ParentsIn(forest, parts[2]), (std::vector<int32_t>{~0, 0}));
  std::string order;
  RunParts(
      parts, [&](size_t i) { absl::StrAppend(&order, "+", i); }, [&](size_t i) { absl::StrAppend(&order, "-", i); });
  EXPECT_EQ(order, "+0+1-1+2-2-0");
}

TEST(CutForest, ARowSeesTheSameKeysInItsPartAsInTheForest) {
  std::mt19937 rng(7);
  for (int round = 0; round < 300; ++round) {
    const auto calls = RandomCalls(rng, 1 + rng() % 12, 1 + static_cast<int>(rng() % 3), 1 + rng() % 12);
    const PackedForest forest = Pack(calls);
    const int64_t budget = 1 + static_cast<int64_t>(rng() % 20);
    const auto parts = CutForest(forest, budget);
    int32_t at = 0;
    int64_t pairs = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      const ForestPart& part = parts[p];
      ASSERT_EQ(part.begin, at);
      ASSERT_GT(part.size(), 0);
      ASSERT_LE(part.size(), budget);
      at = part.end;
      pairs += part.visible_pairs;
      const std::vector<int32_t> keys = KeyRows(parts, part);
      ASSERT_EQ(static_cast<int32_t>(keys.size()), part.prefix_rows + part.size());
      for (int32_t q = part.begin; q < part.end; ++q) {
        std::set<int32_t> expected, seen;
        for (int32_t j = 0; j <= q; ++j) {
          if (q < forest.visible_end[static_cast<size_t>(j)]) expected.insert(j);
        }
        const int32_t query = part.prefix_rows + q - part.begin;
        for (int32_t j = 0; j <= query; ++j) {
          if (query < part.visible_end[static_cast<size_t>(j)]) seen.insert(keys[static_cast<size_t>(j)]);
        }
        ASSERT_EQ(seen, expected) << "round " << round << " row " << q;
      }
      for (const ForestPart::Source& source : part.prefix) {
        ASSERT_LT(source.part, static_cast<int32_t>(p));
        ASSERT_GE(parts[static_cast<size_t>(source.part)].last_user, static_cast<int32_t>(p));
      }
      // Backward in reverse is a stack: what waits below a part that is seen later waits for a reason of its own, or
      // for this part.
      if (part.seen_later(static_cast<int32_t>(p))) {
        for (const ForestPart::Source& source : part.prefix) {
          ASSERT_GT(parts[static_cast<size_t>(source.part)].last_user, static_cast<int32_t>(p));
        }
      }
    }
    ASSERT_EQ(at, static_cast<int32_t>(forest.size()));
    ASSERT_EQ(pairs, forest.visible_pairs);
  }
}

TEST(CutForest, ABranchThatFitsIsNotCutApart) {
  // 10 trees of 6 tokens under a budget of 8: cuts at multiples of 8 would make trees wait for the next part.
  std::vector<CallPath> calls;
  for (int32_t i = 0; i < 10; ++i) calls.push_back(MakeCall({i}, {1, 2, 3, 4, 5}));
  const auto parts = CutForest(Pack(calls), 8);
  EXPECT_EQ(parts.size(), 10u);
  for (const ForestPart& part : parts) EXPECT_TRUE(part.exports.empty());
  EXPECT_TRUE(CutForest(PackedForest{}, 8).empty());
}

// A loss entry reads every row.
PackedForest Sequence(int32_t rows) {
  PackedForest forest;
  forest.token_ids.assign(static_cast<size_t>(rows), 0);
  forest.visible_end.assign(static_cast<size_t>(rows), rows);
  for (int32_t row = 0; row < rows; ++row) forest.entries.push_back({row, 0, 0, 0});
  return forest;
}

TEST(CutSequence, IsTheCutOfASequenceWithoutItsKeys) {
  for (const int32_t rows : {1, 7, 8, 9, 16, 37}) {
    const std::vector<ForestPart> cut = CutForest(Sequence(rows), 8), planned = CutSequence(rows, 8);
    ASSERT_EQ(planned.size(), cut.size());
    for (size_t i = 0; i < cut.size(); ++i) {
      const ForestPart &a = planned[i], &b = cut[i];
      EXPECT_EQ(
          std::tie(a.begin, a.end, a.prefix_rows, a.exports, a.branches, a.last_user, a.loss_rows, a.visible_pairs),
          std::tie(b.begin, b.end, b.prefix_rows, b.exports, b.branches, b.last_user, b.loss_rows, b.visible_pairs))
          << "part " << i << " of " << rows << " rows";
      ASSERT_EQ(a.prefix.size(), b.prefix.size());
      for (size_t k = 0; k < a.prefix.size(); ++k) {
        EXPECT_EQ(std::tie(a.prefix[k].part, a.prefix[k].rows), std::tie(b.prefix[k].part, b.prefix[k].rows));
      }
      ASSERT_EQ(a.crossings.size(), b.crossings.size());
      for (size_t k = 0; k < a.crossings.size(); ++k) {
        EXPECT_EQ(std::tie(a.crossings[k].row, a.crossings[k].part, a.crossings[k].branch),
                  std::tie(b.crossings[k].row, b.crossings[k].part, b.crossings[k].branch));
      }
    }
  }
  EXPECT_TRUE(CutSequence(0, 8).empty());
}

// A million rows in a thousand parts, whose keys would be 2 GB.
TEST(CutSequence, NeedsMemoryForTheRowsNotForTheKeys) {
  const std::vector<ForestPart> parts = CutSequence(1 << 20, 1 << 10);
  size_t bytes = 0;
  for (const ForestPart& part : parts) {
    EXPECT_TRUE(part.visible_end.empty());
    bytes += part.prefix.capacity() * sizeof(ForestPart::Source) + part.exports.capacity() * sizeof(int32_t);
  }
  EXPECT_EQ(parts.size(), 1024u);
  EXPECT_LT(bytes, size_t{32} << 20);
}

TEST(OrderChainFirst, PutsTheDeepestPathFirstAndLeavesOutCallsWithoutLoss) {
  const std::vector<CallPath> calls = {MakeCall({1, 2}, {3}), MakeCall({1, 2, 3, 4}, {}), MakeCall({1, 2}, {5, 6}),
                                       MakeCall({1, 2}, {3})};
  EXPECT_EQ(OrderChainFirst(calls), (std::vector<int32_t>{2, 0, 3}));
  EXPECT_EQ(Pack(calls).token_ids, (std::vector<int32_t>{1, 2, 5, 6, 3}));
}

TEST(Documents, SeparateCallsShareNothing) {
  const std::vector<CallPath> calls = {MakeCall({1, 2}, {3}), MakeCall({1, 2, 3, 4}, {5})};
  const auto forest = PackDocuments(calls, SeparateCalls(calls));
  ASSERT_TRUE(forest.ok()) << forest.status();
  EXPECT_EQ(forest->token_ids, (std::vector<int32_t>{1, 2, 3, 4, 5, 1, 2, 3}));
  EXPECT_EQ(forest->visible_end, (std::vector<int32_t>{5, 5, 5, 5, 5, 8, 8, 8}));
  ASSERT_EQ(forest->entries.size(), 2u);
  EXPECT_EQ(forest->entries[0].row, 6);
  EXPECT_EQ(forest->entries[1].row, 3);
  EXPECT_EQ(forest->unmerged_tokens, 8);
}

// One chain of two turns, and a branch that repeats the tokens before its fork.
TEST(Documents, ChainsRepeatOnlyAtForks) {
  const std::vector<CallPath> calls = {MakeCall({1, 2}, {3}), MakeCall({1, 2, 3, 4}, {5}), MakeCall({1, 2}, {6})};
  const auto forest = PackDocuments(calls, ChainedCalls(calls));
  ASSERT_TRUE(forest.ok()) << forest.status();
  EXPECT_EQ(forest->token_ids, (std::vector<int32_t>{1, 2, 3, 4, 5, 1, 2, 6}));
  EXPECT_EQ(forest->entries.size(), 3u);
}

TEST(Documents, EveryPackingHasTheSameEntries) {
  std::mt19937 rng(11);
  for (int round = 0; round < 100; ++round) {
    const auto calls = RandomCalls(rng, 1 + rng() % 12, 1 + static_cast<int>(rng() % 3), 1 + rng() % 12);
    const PackedForest tree = Pack(calls);
    for (const auto& documents : {SeparateCalls(calls), ChainedCalls(calls)}) {
      const auto forest = PackDocuments(calls, documents);
      ASSERT_TRUE(forest.ok()) << forest.status();
      ASSERT_EQ(forest->entries.size(), tree.entries.size());
      for (size_t i = 0; i < tree.entries.size(); ++i) {
        const LossEntry &a = forest->entries[i], &b = tree.entries[i];
        ASSERT_EQ(std::tie(a.call, a.offset, a.token), std::tie(b.call, b.offset, b.token));
        // The same path leads to both rows.
        const auto path = [](const PackedForest& f, int32_t row) {
          std::vector<int32_t> tokens;
          for (int32_t j = 0; j <= row; ++j) {
            if (row < f.visible_end[static_cast<size_t>(j)]) tokens.push_back(f.token_ids[static_cast<size_t>(j)]);
          }
          return tokens;
        };
        ASSERT_EQ(path(*forest, a.row), path(tree, b.row));
      }
    }
  }
}

}  // namespace
}  // namespace ingot::tree
