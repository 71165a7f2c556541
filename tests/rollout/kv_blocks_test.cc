#include "rollout/cache/kv_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"

namespace ingot::rollout {
namespace {

using Ref = KvBlocks::Ref;

std::vector<int32_t> Tokens(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(count);
  for (int32_t i = 0; i < count; ++i) tokens[i] = first + i;
  return tokens;
}

// Holds and names one block per `block_tokens` of `tokens`, like a request that computed them.
std::vector<Ref> Compute(KvBlocks& blocks, uint64_t salt, const std::vector<int32_t>& tokens) {
  std::vector<Ref> held = blocks.Match(salt, tokens);
  const size_t width = blocks.block_tokens();
  for (size_t i = held.size(); i < tokens.size() / width; ++i) {
    held.push_back(*blocks.Allocate());
    const auto block = std::span(tokens).subspan(i * width, width);
    EXPECT_TRUE(blocks.Publish(salt, i == 0 ? nullptr : &held[i - 1], block, &held[i]));
  }
  return held;
}

TEST(KvBlocksTest, AllocatesEveryBlockOnceAndTakesThemBack) {
  KvBlocks blocks(3, 4);
  std::set<int32_t> ids;
  {
    std::vector<Ref> held;
    for (int i = 0; i < 3; ++i) held.push_back(*blocks.Allocate());
    for (const Ref& ref : held) ids.insert(ref.id());
    EXPECT_FALSE(blocks.Allocate().has_value());
    EXPECT_EQ(blocks.held(), 3);
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(blocks.held(), 0);
  EXPECT_EQ(blocks.available(), 3);
}

TEST(KvBlocksTest, AMatchIsTheLongestPrefixOfWholeBlocks) {
  KvBlocks blocks(8, 4);
  std::vector<Ref> held = Compute(blocks, 1, Tokens(0, 12));
  std::vector<int32_t> forked = Tokens(0, 12);
  forked[9] = 99;
  EXPECT_EQ(blocks.Match(1, Tokens(0, 12)).size(), 3u);
  EXPECT_EQ(blocks.Match(1, Tokens(0, 11)).size(), 2u);
  EXPECT_EQ(blocks.Match(1, forked).size(), 2u);
  EXPECT_EQ(blocks.Match(1, Tokens(1, 12)).size(), 0u);
  const std::vector<Ref> match = blocks.Match(1, forked);
  EXPECT_EQ(match[0].id(), held[0].id());
  EXPECT_EQ(match[1].id(), held[1].id());
}

TEST(KvBlocksTest, EqualBlocksAfterDifferentPrefixesAreDifferent) {
  KvBlocks blocks(8, 2);
  Compute(blocks, 1, {1, 2, 7, 7});
  EXPECT_EQ(blocks.CountMatch(1, std::vector<int32_t>{3, 4, 7, 7}), 0);
  Compute(blocks, 1, {3, 4, 7, 7});
  EXPECT_EQ(blocks.cached(), 4);
}

TEST(KvBlocksTest, SaltsDoNotShare) {
  KvBlocks blocks(8, 4);
  const std::vector<Ref> held = Compute(blocks, 1, Tokens(0, 8));
  EXPECT_EQ(blocks.CountMatch(2, Tokens(0, 8)), 0);
  Ref mine = *blocks.Allocate();
  EXPECT_FALSE(blocks.Publish(2, &held[0], Tokens(4, 4), &mine)) << "a parent of another salt";
  EXPECT_FALSE(blocks.IsNamed(mine.id()));
}

TEST(KvBlocksTest, TheNamedBlockReplacesADuplicate) {
  KvBlocks blocks(8, 4);
  std::vector<Ref> first = Compute(blocks, 1, Tokens(0, 4));
  Ref second = *blocks.Allocate();
  EXPECT_NE(second.id(), first[0].id());
  EXPECT_TRUE(blocks.Publish(1, nullptr, Tokens(0, 4), &second));
  EXPECT_EQ(second.id(), first[0].id());
  EXPECT_EQ(blocks.held(), 1);
}

TEST(KvBlocksTest, EvictsTheLeastRecentlyUsedLeafFirst) {
  KvBlocks blocks(3, 4);
  std::vector<Ref> old = Compute(blocks, 1, Tokens(0, 8));
  KvBlocks::ReleaseAll(old);
  std::vector<Ref> recent = Compute(blocks, 1, Tokens(50, 4));
  KvBlocks::ReleaseAll(recent);
  Ref fresh = *blocks.Allocate();  // no free block is left: the leaf of the old path goes
  EXPECT_EQ(blocks.CountMatch(1, Tokens(0, 8)), 1);
  EXPECT_EQ(blocks.CountMatch(1, Tokens(50, 4)), 1);
  EXPECT_EQ(blocks.CheckInvariants(), "");
}

TEST(KvBlocksTest, DroppingASaltFreesBlocksWithoutAHolderAndMakesTheRestPrivate) {
  KvBlocks blocks(4, 4);
  std::vector<Ref> held = Compute(blocks, 1, Tokens(0, 4));
  std::vector<Ref> left = Compute(blocks, 1, Tokens(0, 8));
  KvBlocks::ReleaseAll(left);
  EXPECT_EQ(blocks.cached(), 1);
  blocks.Drop(1);
  EXPECT_EQ(blocks.cached(), 0);
  EXPECT_EQ(blocks.held(), 1);
  EXPECT_EQ(blocks.CountMatch(1, Tokens(0, 8)), 0);
  Ref next = *blocks.Allocate();
  EXPECT_FALSE(blocks.Publish(1, &held[0], Tokens(4, 4), &next));
  EXPECT_EQ(blocks.CheckInvariants(), "");
}

// Random requests match, grow, publish and end, and salts are dropped. A map knows the last content of each block. No
// block is given to a second content while a request relies on it.
TEST(KvBlocksTest, RandomUseNeverLosesOrMixesABlock) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    uint64_t draws = 0;
    const auto random = [&](uint64_t below) { return base::DeriveSeed(seed, draws++) % below; };
    KvBlocks blocks(20, 2);
    std::map<int32_t, std::vector<int32_t>> content;  // block -> salt and all tokens up to its end
    struct Request {
      uint64_t salt;
      std::vector<int32_t> tokens;
      std::vector<Ref> held;
      bool publishes = true;
    };
    std::vector<Request> requests;
    for (int step = 0; step < 400; ++step) {
      const uint64_t action = random(10);
      if (action < 4) {
        Request request;
        request.salt = 1 + random(2);
        const size_t length = 2 * (1 + random(5));
        for (size_t i = 0; i < length; ++i) request.tokens.push_back(static_cast<int32_t>(random(2)));
        request.held = blocks.Match(request.salt, request.tokens);
        for (size_t i = 0; i < request.held.size(); ++i) {
          std::vector<int32_t> expected = {static_cast<int32_t>(request.salt)};
          expected.insert(expected.end(), request.tokens.begin(), request.tokens.begin() + 2 * (i + 1));
          ASSERT_EQ(content[request.held[i].id()], expected);
        }
        requests.push_back(std::move(request));
      } else if (action < 8 && !requests.empty()) {
        Request& request = requests[random(requests.size())];
        const size_t i = request.held.size();
        if (2 * i >= request.tokens.size()) continue;
        std::optional<Ref> block = blocks.Allocate();
        if (!block.has_value()) {
          EXPECT_EQ(blocks.available(), 0);
          continue;
        }
        for (const Request& other : requests) {
          for (const Ref& ref : other.held) ASSERT_NE(ref.id(), block->id()) << "given out twice";
        }
        std::vector<int32_t> written = {static_cast<int32_t>(request.salt)};
        written.insert(written.end(), request.tokens.begin(), request.tokens.begin() + 2 * (i + 1));
        content[block->id()] = written;
        request.held.push_back(*std::move(block));
        const auto own = std::span<const int32_t>(request.tokens).subspan(2 * i, 2);
        if (request.publishes) {
          request.publishes =
              blocks.Publish(request.salt, i == 0 ? nullptr : &request.held[i - 1], own, &request.held[i]);
        }
        ASSERT_EQ(content[request.held[i].id()], written);
      } else if (action == 8 && !requests.empty()) {
        const size_t gone = random(requests.size());
        KvBlocks::ReleaseAll(requests[gone].held);
        requests.erase(requests.begin() + static_cast<ptrdiff_t>(gone));
      } else if (random(8) == 0) {
        const uint64_t salt = 1 + random(2);
        blocks.Drop(salt);
        for (Request& request : requests) request.publishes &= request.salt != salt;
      }
      ASSERT_EQ(blocks.CheckInvariants(), "") << "seed " << seed << " step " << step;
    }
    for (Request& request : requests) KvBlocks::ReleaseAll(request.held);
    EXPECT_EQ(blocks.held(), 0);
    EXPECT_EQ(blocks.CheckInvariants(), "");
  }
}

v1::Placeholders Image(int32_t first, int32_t count, const std::string& content) {
  v1::Placeholders run;
  run.set_first(first);
  run.set_count(count);
  run.set_content(content);
  return run;
}

Contents Of(const std::vector<v1::Placeholders>& runs) {
  return Contents(google::protobuf::RepeatedPtrField<v1::Placeholders>(runs.begin(), runs.end()));
}

TEST(ContentsTest, KeysAreEqualExactlyWhereContentsAre) {
  const Contents two = Of({Image(2, 4, "image-01"), Image(6, 2, "image-02")});
  EXPECT_EQ(Contents().KeyOf(0, 100), "");
  EXPECT_EQ(two.KeyOf(0, 2), "");
  EXPECT_EQ(two.KeyOf(8, 12), "");
  EXPECT_EQ(two.KeyOf(0, 4), Of({Image(2, 2, "image-01")}).KeyOf(0, 4));
  EXPECT_EQ(two.KeyOf(4, 6), Of({Image(0, 2, "image-01")}).KeyOf(0, 2)) << "relative to the begin";
  EXPECT_EQ(two.KeyOf(2, 6), Of({Image(2, 3, "image-01"), Image(5, 1, "image-01")}).KeyOf(2, 6)) << "borders";
  EXPECT_NE(two.KeyOf(0, 4), Of({Image(2, 2, "image-02")}).KeyOf(0, 4));
  EXPECT_NE(two.KeyOf(0, 4), Of({Image(3, 1, "image-01")}).KeyOf(0, 4));
  EXPECT_NE(two.KeyOf(4, 8), Of({Image(4, 4, "image-01")}).KeyOf(4, 8));
}

TEST(ContentsTest, TheFirstDifferenceIsThatOfTheTokensOneByOne) {
  const Contents two = Of({Image(2, 4, "image-01"), Image(6, 2, "image-02")});
  EXPECT_EQ(two.FirstDifference(two, 9), 9u);
  EXPECT_EQ(two.FirstDifference(Contents(), 9), 2u);
  EXPECT_EQ(Contents().FirstDifference(two, 1), 1u);
  EXPECT_EQ(two.FirstDifference(Of({Image(2, 4, "image-01")}), 9), 6u);
  EXPECT_EQ(two.FirstDifference(Of({Image(2, 6, "image-01")}), 9), 6u);
  EXPECT_EQ(two.FirstDifference(Of({Image(3, 3, "image-01")}), 9), 2u);
  EXPECT_EQ(two.FirstDifference(Of({Image(2, 4, "image-01"), Image(6, 2, "image-03")}), 9), 6u);
}

TEST(KvBlocksTest, BlocksOfEqualIdsWithDifferentContentsAreNeverShared) {
  KvBlocks blocks(8, 4);
  const std::vector<int32_t> tokens = {1, 2, 9, 9, 9, 9, 3, 4, 5, 6, 7, 8};
  const Contents first = Of({Image(2, 4, "image-01")}), second = Of({Image(2, 4, "image-02")});
  std::vector<Ref> held;
  for (size_t i = 0; i < 3; ++i) {
    held.push_back(*blocks.Allocate());
    EXPECT_TRUE(blocks.Publish(1, i == 0 ? nullptr : &held[i - 1], std::span(tokens).subspan(4 * i, 4), &held[i],
                               first.KeyOf(4 * i, 4 * i + 4)));
  }
  EXPECT_EQ(blocks.CountMatch(1, tokens, first), 3);
  EXPECT_EQ(blocks.CountMatch(1, tokens, second), 0);
  EXPECT_EQ(blocks.CountMatch(1, tokens), 0) << "text of equal ids";
  EXPECT_EQ(blocks.Match(1, tokens, first)[2].id(), held[2].id());
}

}  // namespace
}  // namespace ingot::rollout
