#include "trainer/parallel/divide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "../makers.h"
#include "trainer/parallel/wire.h"

namespace ingot::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

tree::CallPath Call(const std::vector<int32_t>& tokens, int32_t context = 1) {
  tree::CallPath call;
  call.context = tree::TokenPath({tokens.begin(), tokens.begin() + context});
  call.sampled.assign(tokens.begin() + context, tokens.end());
  return call;
}

// Rows of the calls' trie.
int64_t MergedRows(const std::vector<tree::CallPath>& calls, const std::vector<int32_t>& rank_of, int rank) {
  std::set<std::vector<int32_t>> prefixes;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (rank_of[i] != rank) continue;
    const std::vector<int32_t> tokens = calls[i].Tokens();
    for (auto end = tokens.begin(); end != tokens.end();) prefixes.insert({tokens.begin(), ++end});
  }
  return static_cast<int64_t>(prefixes.size());
}

// Orders calls by their ids: a call that ends at `depth` first, then by the next token, in order of its first
// appearance.
std::vector<size_t> InTrieOrder(const std::vector<tree::CallPath>& calls, const std::vector<size_t>& members,
                                size_t depth) {
  std::vector<size_t> order;
  std::vector<std::pair<int32_t, std::vector<size_t>>> further;
  for (const size_t member : members) {
    const std::vector<int32_t> tokens = calls[member].Tokens();
    if (tokens.size() == depth) {
      order.push_back(member);
      continue;
    }
    auto found = std::find_if(further.begin(), further.end(), [&](const auto& f) { return f.first == tokens[depth]; });
    if (found == further.end()) found = further.insert(further.end(), {tokens[depth], {}});
    found->second.push_back(member);
  }
  for (const auto& [token, those] : further) {
    const auto below = InTrieOrder(calls, those, depth + 1);
    order.insert(order.end(), below.begin(), below.end());
  }
  return order;
}

TEST(DivideCalls, KeepsSharedPrefixesTogether) {
  // Two tries of 4 and 3 rows, their calls mixed.
  const std::vector<tree::CallPath> calls = {Call({1, 2, 3}), Call({7, 8, 9}), Call({1, 2, 4}), Call({7, 8, 9})};
  EXPECT_THAT(DivideCalls(calls, 2, {}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(DivideCalls(calls, 1, {}), Each(0));
}

TEST(DivideCalls, SplitsAPrefixWhereThatIsCheaper) {
  // One row shared, 3 rows each: 4 on either side, instead of 7 and 0.
  const std::vector<tree::CallPath> calls = {Call({1, 2, 3, 4}), Call({1, 5, 6, 7})};
  EXPECT_THAT(DivideCalls(calls, 2, {}), ElementsAre(0, 1));
  // All but one row shared: 5 rows together, 4 apart. Together is still cheaper.
  EXPECT_THAT(DivideCalls(std::vector{Call({1, 2, 3, 4}), Call({1, 2, 3, 5})}, 2, {}), ElementsAre(0, 1));
}

TEST(DivideCalls, MoreRanksThanCallsLeavesTheLastOnesIdle) {
  const std::vector<tree::CallPath> calls = {Call({5, 6}), Call({1, 2}), Call({3}, 1)};
  EXPECT_THAT(DivideCalls(calls, 4, {}), ElementsAre(0, 1, -1));  // the third sampled nothing
  EXPECT_TRUE(DivideCalls({}, 2, {}).empty());
}

TEST(DivideCalls, CountsPairsAndLossEntries) {
  // 6 rows in one, 3 + 3 in the others: by rows alone {6} {3 3}.
  const std::vector<tree::CallPath> calls = {Call({1, 1, 1, 1, 1, 1}), Call({2, 2, 2}), Call({3, 3, 3})};
  EXPECT_THAT(DivideCalls(calls, 2, {}), ElementsAre(0, 1, 1));
  // Entries alone: 5, 2, 2. The greatest of {5}{2 2} is 5, of {5 2}{2} it is 7.
  EXPECT_THAT(DivideCalls(calls, 2, {0, 0, 1}), ElementsAre(0, 1, 1));
  // Pairs alone: 21, 6, 6. A third rank would lower nothing.
  EXPECT_THAT(DivideCalls(calls, 3, {0, 1, 0}), ElementsAre(0, 1, 1));
}

// Compared with every way of cutting the same order into runs.
TEST(DivideCalls, TheGreatestCostIsTheLeastPossible) {
  Draws draws(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<tree::CallPath> calls;
    const int64_t count = 1 + draws.Below(7);
    for (int64_t i = 0; i < count; ++i) {
      calls.push_back(Call(Join({static_cast<int32_t>(draws.Below(2))}, draws.Tokens(1 + draws.Below(5), 2))));
    }
    constexpr int kRanks = 3;
    const std::vector<int32_t> divided = DivideCalls(calls, kRanks, {});
    int64_t greatest = 0;
    for (int rank = 0; rank < kRanks; ++rank) greatest = std::max(greatest, MergedRows(calls, divided, rank));

    std::vector<size_t> order(calls.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    order = InTrieOrder(calls, order, 0);
    int64_t best = std::numeric_limits<int64_t>::max();
    for (size_t first = 0; first <= order.size(); ++first) {
      for (size_t second = first; second <= order.size(); ++second) {
        std::vector<int32_t> rank_of(calls.size());
        for (size_t i = 0; i < order.size(); ++i) rank_of[order[i]] = (i >= first) + (i >= second);
        int64_t worst = 0;
        for (int rank = 0; rank < kRanks; ++rank) worst = std::max(worst, MergedRows(calls, rank_of, rank));
        best = std::min(best, worst);
      }
    }
    EXPECT_EQ(greatest, best) << "round " << round;
  }
}

TEST(Wire, ABatchSurvivesTheRoundTrip) {
  TrainBatch batch = RandomBatch(3, 37, 5);
  batch.feed.set_head(17);
  const auto received = DecodeBatch(EncodeBatch(batch));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->step, 5);
  EXPECT_EQ(received->feed.head(), 17);
  ASSERT_EQ(received->groups.size(), batch.groups.size());
  for (size_t g = 0; g < batch.groups.size(); ++g) {  // as text, where the entries of a map are sorted
    EXPECT_EQ(received->groups[g].DebugString(), batch.groups[g].DebugString());
  }
}

TEST(Wire, ATruncatedBatchIsAnError) {
  const std::string whole = EncodeBatch(RandomBatch(3, 37, 5, 1, 2));
  for (size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_FALSE(DecodeBatch(std::string_view(whole).substr(0, size)).ok()) << size;
  }
}

// A call of supervised training, without the recorded fields, which are not sent.
std::vector<tree::CallPath> SentAndRead(const std::vector<tree::CallPath>& calls) {
  Writer writer;
  PutCalls(calls, writer);
  const std::string bytes = writer.Release();
  Reader reader(bytes);
  const auto received = ReadCalls(reader);
  EXPECT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(reader.done());
  return *received;
}

// Turns of one conversation, and one that continues from the first again.
std::vector<tree::CallPath> Turns(int count) {
  Draws draws(3);
  std::vector<tree::CallPath> calls;
  tree::TokenPath history(draws.Tokens(20, 37));
  const tree::TokenPath first = history;
  for (int turn = 0; turn < count; ++turn) {
    tree::CallPath& call = calls.emplace_back();
    call.call_id = absl::StrCat("turn ", turn);
    call.episode = 3;
    call.group = 5;
    call.temperature = 0.5;
    call.context = turn + 1 == count ? first : history;
    if (turn > 0) call.sampled = draws.Tokens(10, 37);
    history = history.Then(call.sampled).Then(draws.Tokens(10, 37));
  }
  return calls;
}

TEST(Wire, CallsSurviveTheRoundTripAndShareTheirContexts) {
  const std::vector<tree::CallPath> calls = Turns(4), received = SentAndRead(calls);
  ASSERT_EQ(received.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(received[i].call_id, calls[i].call_id);
    EXPECT_EQ(received[i].episode, 3);
    EXPECT_EQ(received[i].group, 5);
    EXPECT_EQ(received[i].temperature, 0.5f);
    EXPECT_EQ(received[i].Tokens(), calls[i].Tokens());
    EXPECT_EQ(received[i].sampled, calls[i].sampled);
  }
  EXPECT_EQ(received[3].context.key(), received[0].context.key());
  EXPECT_EQ(received[2].context.Runs()[0].ids.data(), received[0].context.Runs()[0].ids.data());
  EXPECT_TRUE(SentAndRead({}).empty());
  const auto size = [](int turns) {
    Writer writer;
    PutCalls(Turns(turns), writer);
    return writer.Release().size();
  };
  EXPECT_EQ(size(300) - size(200), size(200) - size(100));  // linear in the turns, not quadratic
}

TEST(Wire, CallsKeepTheContentsOfTheirPlaceholders) {
  std::vector<tree::CallPath> calls = Turns(1);
  calls[0].context = tree::TokenPath({1}).Then({2, 2}, "image-01").Then({3});
  const auto runs = SentAndRead(calls)[0].context.Runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].content, "");
  EXPECT_EQ(runs[1].content, "image-01");
}

TEST(Wire, TruncatedCallsAreAnError) {
  Writer writer;
  PutCalls(Turns(3), writer);
  const std::string whole = writer.Release();
  for (size_t size = 0; size < whole.size(); ++size) {
    Reader reader(std::string_view(whole).substr(0, size));
    EXPECT_EQ(ReadCalls(reader).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(Wire, SumsAddUp) {
  MetricSums sums;
  sums.means["a"].Add(2.0);
  sums.maxima["b"].Add(-3.0);
  Writer writer;
  PutSums(sums, writer);
  const std::string bytes = writer.Release();
  sums.means["a"].Add(4.0);
  Reader reader(bytes);
  AddSums(reader, sums);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(sums.means["a"].sum, 8.0);
  EXPECT_EQ(sums.means["a"].count, 3);
  EXPECT_EQ(sums.maxima["b"].max, -3.0);
}

}  // namespace
}  // namespace ingot::trainer
