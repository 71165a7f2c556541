// The scheduler on the real pool, through restarts of both: the real journal and episodes behave as those of the fake
// pool in the other tests.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "datapool/store.h"
#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

class SchedulerOnPoolTest : public ::testing::Test {
 protected:
  SchedulerOnPoolTest() {
    std::string name = ::testing::TempDir() + "/scheduler_pool_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SchedulerOnPoolTest() override {
    scheduler_.reset();
    pool_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Both processes die and start again from this checkpoint.
  void Restart(int64_t resume_step) {
    scheduler_.reset();
    pool_.reset();
    datapool::StoreOptions store;
    store.path = folder_;
    store.shards = 3;
    store.sync = false;
    auto pool = datapool::OpenPool(store);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    auto scheduler = Scheduler::Recover(options_, MakeTasks(4), *pool_, base::Clock::Real(), resume_step);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
    const absl::Status live = scheduler_->MarkVersionLive(resume_step);
    ASSERT_TRUE(live.ok()) << live;
  }
  static std::string IdOf(const v1::Ticket& ticket) {
    return std::to_string(ticket.purpose()) + "-" + std::to_string(ticket.ref().group_id()) + "-" +
           std::to_string(ticket.ref().sample_index()) + "-" + std::to_string(ticket.ref().attempt());
  }
  v1::Ticket MustAdmit() {
    const auto ticket = scheduler_->Admit({});
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    if (!ticket.ok()) return {};
    v1::StoreEpisodeRequest open;
    v1::Episode& episode = *open.mutable_episode();
    episode.set_episode_id(IdOf(*ticket));
    *episode.mutable_ref() = ticket->ref();
    episode.set_purpose(ticket->purpose());
    *episode.mutable_task() = ticket->task();
    episode.set_pinned_version(ticket->pinned_version());
    episode.set_admitted_version(ticket->admitted_version());
    episode.set_state(v1::EPISODE_OPEN);
    const absl::Status status = pool_->StoreEpisode(open);
    EXPECT_TRUE(status.ok()) << status;
    return *ticket;
  }
  void EndInPool(const v1::Ticket& ticket, v1::EpisodeState state, double reward) {
    v1::StoreEndRequest end;
    end.set_episode_id(IdOf(ticket));
    end.set_state(state);
    end.set_reward(reward);
    const absl::Status status = pool_->StoreEnd(end);
    EXPECT_TRUE(status.ok()) << status;
  }
  void End(const v1::Ticket& ticket, v1::EpisodeState state, double reward = 0) {
    EndInPool(ticket, state, reward);
    const absl::Status status = scheduler_->ReportEpisodeEnd(EndOf(ticket, state, reward));
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<int64_t> Train(int64_t step) {
    const auto batch = scheduler_->NextBatch(Batch(step));
    EXPECT_TRUE(batch.ok()) << batch.status();
    const absl::Status live = scheduler_->MarkVersionLive(step + 1);
    EXPECT_TRUE(live.ok()) << live;
    return batch.ok() ? GroupsOf(*batch) : std::vector<int64_t>();
  }

  const SchedulerOptions options_{.group_size = 2,
                                  .groups_per_step = 1,
                                  .max_staleness = 2,
                                  .window_fraction = 1,
                                  .total_steps = 4,
                                  .max_attempts = 2};
  std::string folder_;
  std::unique_ptr<datapool::Client> pool_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerOnPoolTest, ARunThatIsResumedTwiceFromTheSameCheckpointConsumesEveryGroupOnce) {
  std::vector<std::vector<int64_t>> batches;
  ASSERT_NO_FATAL_FAILURE(Restart(0));
  for (int64_t step = 0; step < 2; ++step) {
    End(MustAdmit(), v1::EPISODE_FINISHED, 0);
    End(MustAdmit(), v1::EPISODE_FINISHED, 1);
    batches.push_back(Train(step));
  }
  EndInPool(MustAdmit(), v1::EPISODE_FINISHED, 0);  // group 2: one end was never reported, one episode is lost
  const v1::Ticket lost = MustAdmit();
  EXPECT_EQ(lost.ref().group_id(), 2);

  for (int life = 0; life < 2; ++life) {
    ASSERT_NO_FATAL_FAILURE(Restart(0));
    for (int64_t step = 0; step < 2; ++step) EXPECT_EQ(Train(step), batches[static_cast<size_t>(step)]);
  }
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(IdOf(again), "0-2-1-1");  // the same sample, its next attempt
  End(again, v1::EPISODE_FINISHED, 1);
  batches.push_back(Train(2));
  std::set<int64_t> groups;
  for (const auto& batch : batches) groups.insert(batch.begin(), batch.end());
  EXPECT_EQ(groups, (std::set<int64_t>{0, 1, 2}));
}

TEST_F(SchedulerOnPoolTest, FailedAttemptsAreCountedThroughARestartAndLostOnesAreNot) {
  ASSERT_NO_FATAL_FAILURE(Restart(0));
  End(MustAdmit(), v1::EPISODE_FAILED);  // attempt 0 of sample 0
  MustAdmit();                           // attempt 1: lost
  ASSERT_NO_FATAL_FAILURE(Restart(0));
  const v1::Ticket third = MustAdmit();
  EXPECT_EQ(third.ref().attempt(), 2);
  EXPECT_EQ(scheduler_->Status()->stats().failed(), 0);
  End(third, v1::EPISODE_FAILED);  // the second that failed
  EXPECT_EQ(scheduler_->Status()->stats().failed(), 1);
}

}  // namespace
}  // namespace ingot::scheduler
