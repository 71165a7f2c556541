// The causes of the trainer's waits.
#include "view/runs/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datapool/make_pool.h"

namespace ingot::view::waits_test {
namespace {

namespace pools = datapool::testing;
using ::testing::DoubleNear;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int64_t kSecond = 1'000'000'000;

void AddCall(v1::EpisodeTree& tree, double queued, double first, double end) {
  v1::CallTimes& times = *tree.add_calls()->mutable_times();
  times.set_queued_unix_ns(static_cast<int64_t>(queued * kSecond));
  times.set_first_token_unix_ns(static_cast<int64_t>(first * kSecond));
  times.set_end_unix_ns(static_cast<int64_t>(end * kSecond));
}

TEST(CausesWithin, EveryInstantHasOneCause) {
  v1::EpisodeTree tree;
  tree.mutable_episode()->set_opened_unix_ns(12 * kSecond);
  AddCall(tree, 13, 14, 16);
  AddCall(tree, 13.5, 15, 17);  // a parallel branch: decoding of either counts once
  AddCall(tree, 19, 19.5, 20);
  EXPECT_THAT(CausesWithin(tree, 10 * kSecond, 21 * kSecond),
              UnorderedElementsAre(
                  Pair("episode start", DoubleNear(2, 1e-9)), Pair("engine: queue and prompt", DoubleNear(1.5, 1e-9)),
                  Pair("engine: decoding", DoubleNear(3.5, 1e-9)), Pair("agent and its tools", DoubleNear(4, 1e-9))));
  EXPECT_THAT(CausesWithin(tree, 15 * kSecond, 16 * kSecond),
              UnorderedElementsAre(Pair("engine: decoding", DoubleNear(1, 1e-9))));
}

TEST(DescribeTimeSpent, NamesTheLongestCauseFirstAndTheTimeAfterTheLastCall) {
  v1::EpisodeTree tree;
  tree.mutable_episode()->set_opened_unix_ns(10 * kSecond);
  EXPECT_EQ(DescribeTimeSpent(tree, 12 * kSecond, true), "agent and its tools 2.0 s");
  AddCall(tree, 11, 12, 16);
  AddCall(tree, 17, 17.5, 18);
  EXPECT_EQ(DescribeTimeSpent(tree, 48 * kSecond, true),
            "agent and its tools 32 s, engine: decoding 4.5 s, engine: queue and prompt 1.5 s");
  EXPECT_EQ(DescribeTimeSpent(tree, 48 * kSecond, false),
            "an agent at work, or an unfinished call 30 s, engine: decoding 4.5 s, agent and its tools 2.0 s, engine: "
            "queue and prompt 1.5 s");
  v1::EpisodeTree quick;
  quick.mutable_episode()->set_opened_unix_ns(10 * kSecond);
  AddCall(quick, 10, 11, 11.02);
  EXPECT_EQ(DescribeTimeSpent(quick, 11'020'000'000, true),
            "engine: queue and prompt 1.0 s");  // 0.02 s are not worth a word
}

TEST(Waits, OfABatchAddUpToTheWaitWhatever) {
  pools::TempDir dir;
  const auto pool = datapool::OpenPool(pools::QuickOptions(dir.path())).value();
  v1::AppendJournalRequest records;
  records.add_records()->mutable_admitted()->set_group_id(0);
  records.add_records()->mutable_rewarded()->set_group_id(0);
  v1::Batch& batch = *records.add_records()->mutable_batch();
  batch.add_group_ids(0);
  ASSERT_TRUE(pool->AppendJournal(records).ok());
  Journal journal;
  ASSERT_TRUE(journal.Refresh(*pool).ok());
  const double now = static_cast<double>(journal.Batch(0)->unix_ns) * 1e-9;
  for (const double later : {0.25, 3.0}) {
    const Row row{
        0, now + later, {{"perf/step_seconds", 2.5}, {"perf/wait_seconds", 2}, {"perf/checkpoint_seconds", 0.25}}};
    Waits waits;
    double sum = 0;
    for (const Part& part : waits.CausesOf(row, journal, *pool)) sum += part.amount;
    EXPECT_NEAR(sum, 2, 1e-6);
  }
  Waits waits;
  const Row unknown{7, now, {{"perf/step_seconds", 2.5}, {"perf/wait_seconds", 2}}};
  EXPECT_EQ(waits.CausesOf(unknown, journal, *pool).front().amount, 2);
}

}  // namespace
}  // namespace ingot::view::waits_test
