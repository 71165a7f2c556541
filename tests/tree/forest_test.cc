#include "tree/forest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "cpu_time.h"
#include "tree/makers.h"

namespace ingot::tree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> All(const std::vector<CallPath>& calls) {
  std::vector<int32_t> indices(calls.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(PackForestTest, TheDrawingInTheHeader) {
  const std::vector<CallPath> calls = {MakeCall({'a', 'b', 'c'}, {'d', 'e'}), MakeCall({'a', 'b', 'c'}, {'d', 'f'}),
                                       MakeCall({'a'}, {'g'})};
  const auto forest = PackForest(calls, All(calls));
  ASSERT_TRUE(forest.ok()) << forest.status();
  EXPECT_THAT(forest->token_ids, ElementsAre('a', 'b', 'c', 'd', 'e', 'f', 'g'));
  EXPECT_THAT(forest->visible_end, ElementsAre(7, 6, 6, 6, 5, 6, 7));
  EXPECT_THAT(forest->positions, ElementsAre(0, 1, 2, 3, 4, 4, 1));
  EXPECT_EQ(forest->unmerged_tokens, 12);
  EXPECT_EQ(forest->visible_pairs, 7 + 5 + 4 + 3 + 1 + 1 + 1);
  ASSERT_EQ(forest->entries.size(), 5u);
  const int32_t expected[5][4] = {{2, 'd', 0, 0}, {3, 'e', 0, 1}, {2, 'd', 1, 0}, {3, 'f', 1, 1}, {0, 'g', 2, 0}};
  for (size_t i = 0; i < 5; ++i) {
    const LossEntry& entry = forest->entries[i];
    EXPECT_THAT((std::vector<int32_t>{entry.row, entry.token, entry.call, entry.offset}),
                testing::ElementsAreArray(expected[i]));
  }
}

// The keys that query `row` sees, in packed order.
std::vector<int32_t> Visible(const PackedForest& forest, int32_t row) {
  std::vector<int32_t> keys;
  for (int32_t j = 0; j <= row; ++j) {
    if (row < forest.visible_end[j]) keys.push_back(j);
  }
  return keys;
}

// The definition, checked by the mask alone: each entry's row sees exactly the tokens before its label, in order, and
// no path is packed twice.
void CheckForest(const std::vector<CallPath>& calls, const std::vector<int32_t>& indices) {
  const auto packed = PackForest(calls, indices);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const PackedForest& forest = *packed;
  EXPECT_EQ(forest.call_indices, indices);

  int64_t pairs = 0;
  std::set<std::vector<int32_t>> paths;
  for (int32_t row = 0; row < static_cast<int32_t>(forest.size()); ++row) {
    const std::vector<int32_t> keys = Visible(forest, row);
    pairs += static_cast<int64_t>(keys.size());
    ASSERT_EQ(forest.positions[row], static_cast<int32_t>(keys.size()) - 1);
    std::vector<int32_t> path;
    for (size_t depth = 0; depth < keys.size(); ++depth) {
      ASSERT_EQ(forest.positions[keys[depth]], static_cast<int32_t>(depth));
      path.push_back(forest.token_ids[keys[depth]]);
    }
    ASSERT_TRUE(paths.insert(path).second) << "row " << row << " repeats another's path";
  }
  EXPECT_EQ(forest.visible_pairs, pairs);

  std::set<std::vector<int32_t>> prefixes;
  int64_t unmerged = 0;
  for (const int32_t index : indices) {
    const std::vector<int32_t> tokens = calls[index].Tokens();
    unmerged += static_cast<int64_t>(tokens.size());
    for (size_t n = 1; n <= tokens.size(); ++n) prefixes.emplace(tokens.begin(), tokens.begin() + n);
  }
  EXPECT_EQ(forest.unmerged_tokens, unmerged);
  EXPECT_EQ(paths, prefixes);

  std::vector<int32_t> sorted = indices;
  std::sort(sorted.begin(), sorted.end());
  size_t at = 0;
  for (const int32_t index : sorted) {
    const CallPath& call = calls[index];
    const std::vector<int32_t> tokens = call.Tokens();
    for (int32_t offset = 0; offset < static_cast<int32_t>(call.sampled.size()); ++offset, ++at) {
      ASSERT_LT(at, forest.entries.size());
      const LossEntry& entry = forest.entries[at];
      ASSERT_EQ(entry.call, index);
      ASSERT_EQ(entry.offset, offset);
      ASSERT_EQ(entry.token, call.sampled[offset]);
      std::vector<int32_t> seen;
      for (const int32_t key : Visible(forest, entry.row)) seen.push_back(forest.token_ids[key]);
      ASSERT_EQ(seen, std::vector<int32_t>(tokens.begin(), tokens.begin() + call.context.size() + offset));
    }
  }
  EXPECT_EQ(at, forest.entries.size());
}

TEST(PackForestTest, RandomForestsAreExact) {
  std::mt19937 rng(1);
  for (int trial = 0; trial < 400; ++trial) {
    const auto calls = RandomCalls(rng, 1 + rng() % 12, 2 + static_cast<int>(rng() % 5), 1 + rng() % 12);
    std::vector<int32_t> indices = All(calls);
    std::shuffle(indices.begin(), indices.end(), rng);
    indices.resize(1 + rng() % indices.size());
    ASSERT_NO_FATAL_FAILURE(CheckForest(calls, indices)) << "trial " << trial;
  }
}

TEST(PackForestTest, EqualSamplesMergeAndKeepTwoEntries) {
  std::vector<CallPath> calls = {MakeCall({1, 2}, {3, 4}), MakeCall({1, 2}, {3, 4})};
  calls[1].temperature = 0.5f;
  const auto forest = *PackForest(calls, All(calls));
  EXPECT_EQ(forest.size(), 4u);
  ASSERT_EQ(forest.entries.size(), 4u);
  EXPECT_EQ(forest.entries[0].row, forest.entries[2].row);
  EXPECT_EQ(forest.entries[2].call, 1);
}

TEST(PackForestTest, TurnsThatContinueOneAnotherAreOneCausalSequence) {
  std::vector<CallPath> calls = {MakeCall({1}, {2, 3})};
  for (int turn = 1; turn < 20; ++turn) {
    std::vector<int32_t> context = calls.back().Tokens();
    context.push_back(100 + turn);
    calls.push_back(MakeCall(context, {200 + turn, 300 + turn}));
  }
  const auto forest = *PackForest(calls, All(calls));
  const auto n = static_cast<int32_t>(calls.back().size());
  EXPECT_EQ(forest.token_ids, calls.back().Tokens());
  EXPECT_EQ(forest.visible_end, std::vector<int32_t>(n, n));
  ASSERT_NO_FATAL_FAILURE(CheckForest(calls, All(calls)));
}

TEST(PackForestTest, FaultsNameTheCall) {
  std::vector<CallPath> calls = {MakeCall({1}, {2}), MakeCall({}, {2}, "empty"), MakeCall({1}, {-2}, "negative"),
                                 MakeCall({1}, {2}, "short")};
  calls[3].logprobs.clear();
  const auto error = [&](std::vector<int32_t> indices) {
    const auto forest = PackForest(calls, indices);
    EXPECT_EQ(forest.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(forest.status().message());
  };
  EXPECT_THAT(error({0, 1}), HasSubstr("empty"));
  EXPECT_THAT(error({2}), HasSubstr("negative"));
  EXPECT_THAT(error({3}), HasSubstr("short"));
  EXPECT_THAT(error({4}), HasSubstr("unknown call 4"));
  EXPECT_THAT(error({-1}), HasSubstr("unknown call -1"));
  EXPECT_THAT(error({0, 0}), HasSubstr("twice"));
  EXPECT_EQ(PackForest(calls, {})->size(), 0u);
}

// A comb: every call forks one token deeper than the call before, so that the tree is as deep as it has calls.
TEST(PackForestTest, DeepTreesNeedNoStack) {
  std::vector<CallPath> calls;
  std::vector<int32_t> spine;
  for (int i = 0; i < 3000; ++i) {
    spine.push_back(1);
    calls.push_back(MakeCall(spine, {2}));
  }
  const auto forest = *PackForest(calls, All(calls));
  EXPECT_EQ(forest.size(), 6000u);
}

// Each call's prompt holds all earlier turns: more than 2^31 tokens in all, of which half a million differ.
TEST(PackForestTest, ALongDialogueIsLinearInItsTokens) {
  std::vector<CallPath> calls;
  TokenPath history({1});
  int64_t unmerged = 0;
  for (int32_t turn = 0; turn < 10'000; ++turn) {
    CallPath call = MakeCall({}, std::vector<int32_t>(25, turn));
    call.context = history;
    unmerged += call.size();
    history = history.Then(call.sampled).Then(std::vector<int32_t>(25, turn + 1));
    calls.push_back(std::move(call));
  }
  PackedForest forest;
  const double seconds = CpuSeconds([&] { forest = *PackForest(calls, All(calls)); });
  EXPECT_GT(unmerged, int64_t{1} << 31);
  EXPECT_EQ(forest.unmerged_tokens, unmerged);
  EXPECT_EQ(forest.size(), 1u + 10'000 * 50 - 25);
  EXPECT_EQ(forest.entries.size(), 250'000u);
  EXPECT_EQ(forest.entries.back().row, static_cast<int32_t>(forest.size()) - 2);
  EXPECT_LT(seconds, 1.0 * kSlowdown);
}

// Runs with any borders, inserted in any order, give the trie of the whole sequences.
TEST(PackForestTest, TheBordersOfRunsMeanNothing) {
  std::mt19937 rng(3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<CallPath> whole = RandomCalls(rng, 1 + rng() % 8, 2, 1 + rng() % 9);
    std::vector<CallPath> cut = whole;
    for (CallPath& call : cut) {
      std::vector<int32_t> tokens = call.context.Tokens();
      call.context = {};
      while (!tokens.empty()) {
        const auto end = tokens.begin() + 1 + static_cast<std::ptrdiff_t>(rng() % tokens.size());
        call.context = call.context.Then({tokens.begin(), end});
        tokens.erase(tokens.begin(), end);
      }
    }
    const PackedForest a = *PackForest(whole, All(whole)), b = *PackForest(cut, All(cut));
    ASSERT_EQ(a.token_ids, b.token_ids) << "trial " << trial;
    ASSERT_EQ(a.visible_end, b.visible_end) << "trial " << trial;
    ASSERT_EQ(a.positions, b.positions) << "trial " << trial;
    ASSERT_EQ(a.entries.size(), b.entries.size());
    for (size_t i = 0; i < a.entries.size(); ++i) ASSERT_EQ(a.entries[i].row, b.entries[i].row) << "trial " << trial;
  }
}

CallPath WithImages(const std::vector<std::string>& contents, std::vector<int32_t> sampled) {
  CallPath call = MakeCall({1}, std::move(sampled));
  for (const std::string& content : contents) call.context = call.context.Then({9, 9}, content);
  call.context = call.context.Then({2});
  return call;
}

TEST(PackForestTest, PlaceholdersOfDifferentContentNeverMerge) {
  const std::vector<CallPath> calls = {WithImages({"image-01"}, {5}), WithImages({"image-02"}, {5}),
                                       WithImages({"image-01"}, {6}), MakeCall({1, 9, 9, 2}, {5})};
  const auto forest = PackForest(calls, All(calls));
  ASSERT_TRUE(forest.ok()) << forest.status();
  // One root, the two images, the text of equal ids; the calls of equal content share theirs.
  EXPECT_THAT(forest->token_ids, ElementsAre(1, 9, 9, 2, 5, 6, 9, 9, 2, 5, 9, 9, 2, 5));
  EXPECT_THAT(forest->positions, ElementsAre(0, 1, 2, 3, 4, 4, 1, 2, 3, 4, 1, 2, 3, 4));
  ASSERT_EQ(forest->contents.size(), 2u);
  EXPECT_EQ(forest->contents[0].row, 1);
  EXPECT_EQ(forest->contents[0].count, 2);
  EXPECT_EQ(forest->contents[0].content, "image-01");
  EXPECT_EQ(forest->contents[1].row, 6);
  EXPECT_EQ(forest->contents[1].content, "image-02");
  const std::vector<int32_t> of_second = Visible(*forest, 9);
  EXPECT_THAT(of_second, ElementsAre(0, 6, 7, 8, 9));
}

TEST(PackForestTest, CallsPartAtTheFirstPlaceholderThatDiffers) {
  const std::vector<CallPath> calls = {WithImages({"image-01", "image-02"}, {5}),
                                       WithImages({"image-01", "image-03"}, {5})};
  const auto forest = PackForest(calls, All(calls));
  ASSERT_TRUE(forest.ok()) << forest.status();
  EXPECT_EQ(forest->size(), 3u + 2 * 4);
  EXPECT_EQ(forest->positions[7], 3);
}

// Random runs of few ids and contents: two calls share exactly the prefix in which ids and contents are equal.
TEST(PackForestTest, CallsShareWhatIsEqualInIdsAndContents) {
  std::mt19937 rng(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<CallPath> calls;
    std::vector<std::vector<std::pair<int32_t, std::string>>> tokens(4);
    for (auto& of_call : tokens) {
      CallPath call = MakeCall({1}, {3});
      of_call.emplace_back(1, "");
      for (int run = 0; run < 4; ++run) {
        const std::string content = rng() % 3 == 0 ? "" : rng() % 2 == 0 ? "image-01" : "image-02";
        const std::vector<int32_t> ids(1 + rng() % 3, 9);
        call.context = call.context.Then(ids, content);
        for (const int32_t id : ids) of_call.emplace_back(id, content);
      }
      of_call.emplace_back(3, "");
      calls.push_back(std::move(call));
    }
    std::set<std::vector<std::pair<int32_t, std::string>>> prefixes;
    for (const auto& of_call : tokens) {
      for (size_t n = 1; n <= of_call.size(); ++n)
        prefixes.insert({of_call.begin(), of_call.begin() + static_cast<long>(n)});
    }
    const auto forest = PackForest(calls, All(calls));
    ASSERT_TRUE(forest.ok()) << forest.status();
    ASSERT_EQ(forest->size(), prefixes.size()) << "round " << round;
  }
}

TEST(PackForestTest, AMillionTokensTakeAboutASecond) {
  std::mt19937 rng(2);
  std::vector<CallPath> calls;
  std::vector<int32_t> shared(500);
  for (int32_t& id : shared) id = static_cast<int32_t>(rng() % 50000);
  while (calls.size() < 1000) {
    std::vector<int32_t> context = shared, sampled(500);
    for (int32_t& id : sampled) id = static_cast<int32_t>(rng() % 50000);
    if (rng() % 2 == 0 && !calls.empty()) context = calls.back().Tokens();
    if (context.size() > 2500) context.resize(2500);
    calls.push_back(MakeCall(context, sampled));
  }
  PackedForest forest;
  const double seconds = CpuSeconds([&] { forest = *PackForest(calls, All(calls)); });
  EXPECT_GE(forest.unmerged_tokens, 1000000);
  EXPECT_LT(seconds, 2.0 * kSlowdown);
}

}  // namespace
}  // namespace ingot::tree
