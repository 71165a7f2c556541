#include "tree/token_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ingot::tree {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(TokenPathTest, PathsThatContinueAPathShareItsRuns) {
  const TokenPath prompt({5, 1, 9});
  const TokenPath left = prompt.Then({2}).Then({}).Then({3, 4}), right = prompt.Then({7});
  EXPECT_THAT(left.Tokens(), ElementsAre(5, 1, 9, 2, 3, 4));
  EXPECT_THAT(right.Tokens(), ElementsAre(5, 1, 9, 7));
  EXPECT_EQ(left.size(), 6);
  EXPECT_EQ(left.Runs().size(), 3u);
  EXPECT_EQ(left.Runs()[0].ids.data(), right.Runs()[0].ids.data());
  EXPECT_THAT(left.extremes(), Pair(1, 9));
  EXPECT_THAT(TokenPath({3}).Then({-1}).extremes(), Pair(-1, 3));
  EXPECT_EQ(TokenPath(left).key(), left.key());
  EXPECT_NE(prompt.Then({2}).key(), left.key());
}

TEST(TokenPathTest, APrefixSharesTheRunsThatLieWithinIt) {
  const TokenPath path = TokenPath({5, 1, 9}).Then({2}).Then({3, 4, 8});
  EXPECT_EQ(path.First(7).key(), path.key());
  EXPECT_THAT(path.First(6).Tokens(), ElementsAre(5, 1, 9, 2, 3, 4));
  EXPECT_THAT(path.First(6).extremes(), Pair(1, 9));
  EXPECT_EQ(path.First(6).Runs()[1].ids.data(), path.Runs()[1].ids.data());
  EXPECT_THAT(path.First(4).Tokens(), ElementsAre(5, 1, 9, 2));
  EXPECT_THAT(path.First(2).Tokens(), ElementsAre(5, 1));
  EXPECT_TRUE(path.First(0).empty());
  EXPECT_TRUE(TokenPath().First(0).empty());
}

TEST(TokenPathTest, ARunKeepsTheContentOfItsIds) {
  const TokenPath path = TokenPath({5}).Then({7, 7, 7}, "image-01").Then({6});
  ASSERT_EQ(path.Runs().size(), 3u);
  EXPECT_EQ(path.Runs()[0].content, "");
  EXPECT_EQ(path.Runs()[1].content, "image-01");
  EXPECT_EQ(path.First(3).Runs()[1].content, "image-01");
  EXPECT_EQ(path.First(3).Runs()[1].ids.size(), 2u);
}

TEST(TokenPathTest, TheEmptyPath) {
  EXPECT_TRUE(TokenPath().empty());
  EXPECT_TRUE(TokenPath(std::vector<int32_t>()).empty());
  EXPECT_EQ(TokenPath().size(), 0);
  EXPECT_TRUE(TokenPath().Tokens().empty());
  EXPECT_EQ(TokenPath().key(), nullptr);
}

TEST(TokenPathTest, AVisitStopsWhenItsFunctionReturnsFalse) {
  const TokenPath first({1}), path = first.Then({2}).Then({3});
  std::vector<int32_t> seen;
  path.VisitBack([&](const void* key, const TokenRun& run) {
    seen.push_back(run.ids[0]);
    return key != path.key() ? key == first.key() : true;
  });
  EXPECT_THAT(seen, ElementsAre(3, 2));
}

TEST(TokenPathTest, AMillionRunsNeedNoStackToBeReleased) {
  TokenPath path, middle;
  for (int i = 0; i < 1'000'000; ++i) {
    path = path.Then({i});
    if (i == 500'000) middle = path;
  }
  path = {};
  EXPECT_EQ(middle.size(), 500'001);
  EXPECT_EQ(middle.Tokens().back(), 500'000);
}

TEST(TokenPathTest, IsReleasedOnceByManyThreads) {
  for (int round = 0; round < 50; ++round) {
    TokenPath path;
    for (int i = 0; i < 200; ++i) path = path.Then({i});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([branch = path.Then({t})]() mutable { branch = {}; });
    }
    path = {};
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace ingot::tree
