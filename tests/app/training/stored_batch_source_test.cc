// The batches of a run's journal, as another training gets them from its pool.
#include "app/training/stored_batch_source.h"

#include <gmock/gmock.h>

#include <atomic>

#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace pools = datapool::testing;

v1::AppendJournalRequest LiveRecord(int64_t version) {
  v1::AppendJournalRequest request;
  request.add_records()->mutable_live()->set_version(version);
  return request;
}

// A pool of groups with one episode of one call each.
class StoredBatchSourceTest : public ::testing::Test {
 protected:
  StoredBatchSourceTest() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path())).value()) {}

  void Store(int64_t group, int64_t version) {
    const std::string id = absl::StrCat("e", group);
    auto append = pools::Append(id, 0, {pools::Prompt({1, 2})}, {pools::Sampled({3, 4}, version)});
    append.mutable_call()->set_tokenizer_fingerprint("bytes");
    ASSERT_TRUE(pool_->StoreEpisode(pools::Open(id, group, 0)).ok());
    ASSERT_TRUE(pool_->AppendCall(append).ok());
    ASSERT_TRUE(pool_->StoreEnd(pools::End(id)).ok());
  }
  void Journal(const v1::AppendJournalRequest& request) { ASSERT_TRUE(pool_->AppendJournal(request).ok()); }
  // Three trained steps of two groups each, sampled one version before their step at most, and a fourth step that nobody
  // finished.
  void StoreARun() {
    Journal(LiveRecord(0));
    for (int64_t step = 0; step < 4; ++step) {
      for (const int64_t group : {2 * step, 2 * step + 1}) Store(group, std::max<int64_t>(0, step - 1));
      Journal(pools::BatchRecord(step, {2 * step, 2 * step + 1}));
      if (step < 3) Journal(LiveRecord(step + 1));
    }
  }
  StoredBatchSource Source(std::vector<StoredBatch> batches, const std::string& fingerprint = "bytes") {
    return StoredBatchSource(*pool_, std::move(batches), fingerprint, retry_);
  }

  pools::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  std::atomic<bool> stop_ = false;
  const RetryPolicy retry_{.stop = &stop_};
};

std::vector<int64_t> StepsOf(const std::vector<StoredBatch>& batches) {
  std::vector<int64_t> steps;
  for (const StoredBatch& batch : batches) steps.push_back(batch.step);
  return steps;
}

int64_t SampledVersion(const v1::Group& group) {
  for (const auto& segment : group.episodes(0).segments()) {
    if (segment.second.versions_size() > 0) return segment.second.versions(0).version();
  }
  return -1;
}

TEST_F(StoredBatchSourceTest, GivesTheTrainedBatchesInTheOrderOfTheJournal) {
  StoreARun();
  const auto stored = ReadStoredBatches(*pool_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT(StepsOf(stored->Whole()), ElementsAre(0, 1, 2));
  EXPECT_THAT(stored->Gone(), IsEmpty());

  StoredBatchSource source = Source(stored->Whole());
  for (int64_t step = 0; step < 3; ++step) {
    const auto batch = source.Next(step);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->step, step);
    ASSERT_EQ(batch->groups.size(), 2u);
    EXPECT_EQ(batch->groups[1].group_id(), 2 * step + 1);
    EXPECT_EQ(batch->groups[1].episodes(0).episode().reward(), 1);
    EXPECT_EQ(SampledVersion(batch->groups[1]), std::max<int64_t>(0, step - 1));
  }
  EXPECT_EQ(source.Next(3).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(source.Next(-1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(StoredBatchSourceTest, ACheckpointTooSaysThatAStepWasTrained) {
  StoreARun();
  v1::AppendJournalRequest saved;
  saved.add_records()->mutable_checkpoint()->set_step(4);
  Journal(saved);
  EXPECT_THAT(StepsOf(ReadStoredBatches(*pool_)->Whole()), ElementsAre(0, 1, 2, 3));
}

TEST_F(StoredBatchSourceTest, LeavesOutTrimmedStepsAndCountsVersionsFromTheFirstThatIsLeft) {
  StoreARun();
  ASSERT_GT(pools::TrimBelow(*pool_, 1), 0);
  const auto stored = ReadStoredBatches(*pool_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT(stored->Gone(), ElementsAre(0));
  EXPECT_THAT(StepsOf(stored->Whole()), ElementsAre(1, 2));
  StoredBatchSource source = Source(stored->Whole());
  // Step 1 at place 0 was sampled at version 0, and step 2 at place 1 at version 1.
  EXPECT_EQ(SampledVersion(source.Next(0)->groups[0]), 0);
  EXPECT_EQ(source.Next(1)->groups[0].group_id(), 4);
  EXPECT_EQ(SampledVersion(source.Next(1)->groups[0]), 0);
}

TEST_F(StoredBatchSourceTest, SaysThatAGroupWasTrimmedSince) {
  StoreARun();
  StoredBatchSource source = Source(ReadStoredBatches(*pool_)->Whole());
  ASSERT_GT(pools::TrimBelow(*pool_, 1), 0);
  const absl::Status gone = source.Next(0).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("group 0 of the stored step 0"));
  EXPECT_TRUE(source.Next(1).ok());
}

TEST_F(StoredBatchSourceTest, RejectsIdsOfAnotherTokenizer) {
  StoreARun();
  StoredBatchSource source = Source(ReadStoredBatches(*pool_)->Whole(), "another");
  const absl::Status rejected = source.Next(0).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("another tokenizer"));
}

TEST_F(StoredBatchSourceTest, EndsWhenTheRunIsStopped) {
  StoreARun();
  StoredBatchSource source = Source(ReadStoredBatches(*pool_)->Whole());
  stop_ = true;
  EXPECT_EQ(source.Next(0).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(StoredBatchSourceTest, AnEmptyPoolHasNoBatch) {
  const auto stored = ReadStoredBatches(*pool_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT(stored->Whole(), IsEmpty());
  EXPECT_THAT(stored->Gone(), IsEmpty());
}

TEST_F(StoredBatchSourceTest, StepsOfALostJournalAreGone) {
  v1::AppendJournalRequest begun;
  begun.add_records()->mutable_begun()->set_step(2);
  begun.mutable_records(0)->mutable_begun()->set_group(4);
  Journal(begun);
  Store(4, 2);
  Journal(pools::BatchRecord(2, {4}));
  Journal(LiveRecord(3));
  const auto stored = ReadStoredBatches(*pool_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT(stored->Gone(), ElementsAre(0, 1));
  EXPECT_THAT(StepsOf(stored->Whole()), ElementsAre(2));
}

TEST(DescribeSteps, JoinsNeighbours) {
  EXPECT_EQ(DescribeSteps({}), "");
  EXPECT_EQ(DescribeSteps({3}), "3");
  EXPECT_EQ(DescribeSteps({0, 1, 2, 7, 9, 10}), "0 to 2, 7, 9 to 10");
}

}  // namespace
}  // namespace ingot::app
