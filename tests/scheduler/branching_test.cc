// Groups that branch: trunks go first, leaves follow their trunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchedulerOptions TwoTrunks() {
  SchedulerOptions options{
      .group_size = 4, .groups_per_step = 1, .max_staleness = 0, .total_steps = 2, .max_attempts = 3};
  options.branching = {.at = 2, .width = 2};
  return options;
}

class BranchingTest : public testing::Test {
 protected:
  explicit BranchingTest(const SchedulerOptions& options = TwoTrunks()) : options_(options) { Start(0); }

  void Start(std::optional<ResumePoint> resume) {
    scheduler_ = MustRecover(options_, pool_, clock_, resume);
    ASSERT_NE(scheduler_, nullptr);
    if (resume.has_value()) {
      ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
    }
  }
  // nullopt = nothing waits for this requester.
  std::optional<v1::Ticket> Admit(const std::string& runner = "r", const std::string& scaffold = "s") {
    v1::AdmitRequest request;
    request.set_runner(runner);
    request.set_scaffold(scaffold);
    const auto ticket = scheduler_->Admit(request);
    if (!ticket.ok()) return std::nullopt;
    pool_.Open(*ticket);
    return *ticket;
  }
  void End(const v1::Ticket& ticket, v1::EpisodeState state, double reward = 0, const std::string& cause = "") {
    v1::ReportEpisodeEndRequest end = EndOf(ticket, state, reward);
    end.set_episode_id(FakePool::IdOf(ticket));
    end.set_runner("r");
    end.set_scaffold("s");
    end.set_cause(cause);
    pool_.End(end);
    EXPECT_TRUE(scheduler_->ReportEpisodeEnd(end).ok());
  }
  std::vector<double> Returns() {
    for (const auto& record : pool_.state().journal) {
      if (!record.has_rewarded()) continue;
      return {record.rewarded().returns().begin(), record.rewarded().returns().end()};
    }
    return {};
  }

  const SchedulerOptions options_;
  FakePool pool_;
  base::ManualClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(BranchingTest, TrunksGoFirstAndTheGroupIsCompleteWithItsLeaves) {
  const auto first = Admit(), second = Admit();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->ref().sample_index(), 4);
  EXPECT_EQ(second->ref().sample_index(), 5);
  EXPECT_EQ(first->fork_at(), 2);
  EXPECT_EQ(first->trunk_id(), "");
  EXPECT_FALSE(Admit().has_value()) << "leaves wait for their trunks";
  End(*second, v1::EPISODE_FORKED);
  const auto c = Admit(), d = Admit();
  ASSERT_TRUE(c.has_value() && d.has_value());
  EXPECT_EQ(c->ref().sample_index(), 2);
  EXPECT_EQ(d->ref().sample_index(), 3);
  EXPECT_EQ(c->trunk_id(), FakePool::IdOf(*second));
  EXPECT_EQ(c->fork_at(), 0);
  EXPECT_FALSE(Admit().has_value());
  End(*c, v1::EPISODE_FINISHED, 1);
  End(*d, v1::EPISODE_FINISHED, 0);
  End(*first, v1::EPISODE_FORKED);
  for (const double reward : {0.25, 0.5}) {
    EXPECT_TRUE(Returns().empty());
    const auto leaf = Admit();
    ASSERT_TRUE(leaf.has_value());
    End(*leaf, v1::EPISODE_FINISHED, reward);
  }
  EXPECT_THAT(Returns(), ElementsAre(0.25, 0.5, 1, 0));
  EXPECT_EQ(scheduler_->NextBatch(Batch(0))->batch().group_ids_size(), 1);
}

TEST_F(BranchingTest, ALeafGoesToTheRunnerAndTheRecipeOfItsTrunk) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FORKED);
  EXPECT_FALSE(Admit("other", "s").has_value());
  EXPECT_FALSE(Admit("r", "other").has_value());
  EXPECT_TRUE(Admit("r", "s").has_value());
}

TEST_F(BranchingTest, ALeafThatFailsIsForkedAgainFromTheSameTrunk) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FORKED);
  const auto leaf = Admit();
  End(*leaf, v1::EPISODE_INFRASTRUCTURE_FAILED, 0, "sandbox");
  const auto again = Admit();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->ref().sample_index(), leaf->ref().sample_index());
  EXPECT_EQ(again->ref().attempt(), 1);
  EXPECT_EQ(again->trunk_id(), FakePool::IdOf(*first));
}

TEST_F(BranchingTest, ALostSnapshotMakesTheTrunkAndAllItsLeavesBeTriedAgain) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FORKED);
  const auto a = Admit(), b = Admit();
  End(*a, v1::EPISODE_FINISHED, 1);
  End(*b, v1::EPISODE_INFRASTRUCTURE_FAILED, 0, "snapshot");
  const auto trunk = Admit();
  ASSERT_TRUE(trunk.has_value());
  EXPECT_EQ(trunk->ref().sample_index(), 4);
  EXPECT_EQ(trunk->ref().attempt(), 1);
  EXPECT_FALSE(Admit().has_value());
  // It finishes before its fork: one leaf too many was stored already, so both begin anew.
  End(*trunk, v1::EPISODE_FINISHED, 0.5);
  for (int i = 0; i < 2; ++i) {
    const auto leaf = Admit();
    ASSERT_TRUE(leaf.has_value());
    EXPECT_EQ(leaf->ref().attempt(), 1);
    EXPECT_EQ(leaf->trunk_id(), "");
    End(*leaf, v1::EPISODE_FINISHED, i);
  }
  End(*second, v1::EPISODE_FORKED);
  for (int i = 0; i < 2; ++i) End(*Admit(), v1::EPISODE_FINISHED, 2);
  EXPECT_THAT(Returns(), ElementsAre(0, 1, 2, 2, 0.5));
}

TEST_F(BranchingTest, ATrunkThatNeedsNoForkStandsForALeaf) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FINISHED, 0.75);
  const auto other = Admit("other", "other");
  ASSERT_TRUE(other.has_value()) << "a leaf without a fork is anybody's";
  EXPECT_EQ(other->ref().sample_index(), 1);
  EXPECT_EQ(other->trunk_id(), "");
  End(*other, v1::EPISODE_FINISHED, 0.5);
  End(*second, v1::EPISODE_FORKED);
  for (int i = 0; i < 2; ++i) End(*Admit(), v1::EPISODE_FINISHED, i);
  EXPECT_THAT(Returns(), ElementsAre(0.5, 0, 1, 0.75));
}

TEST_F(BranchingTest, ATrunkThatFailsIsTriedAgainAsEverySample) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FAILED);
  const auto again = Admit();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->ref().sample_index(), 4);
  EXPECT_EQ(again->ref().attempt(), 1);
  EXPECT_EQ(again->fork_at(), 2);
}

TEST_F(BranchingTest, OpenersThatCannotForkGetGroupsWithoutTrunks) {
  const auto plain = Admit("", "s");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->ref().sample_index(), 0);
  EXPECT_EQ(plain->fork_at(), 0);
  EXPECT_EQ(pool_.state().journal.back().admitted().branch_width(), 0);
}

TEST_F(BranchingTest, ARestartedSchedulerHandsOutWhatIsLeft) {
  const auto first = Admit(), second = Admit();
  End(*first, v1::EPISODE_FORKED);
  const auto a = Admit();
  End(*a, v1::EPISODE_FINISHED, 1);
  Start(std::nullopt);  // the second trunk runs on
  EXPECT_FALSE(Admit("other", "s").has_value());
  const auto b = Admit();
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->ref().sample_index(), 1);
  EXPECT_EQ(b->trunk_id(), FakePool::IdOf(*first));
  EXPECT_FALSE(Admit().has_value());
  // The snapshot is lost, and the trunk is tried again: the leaves of the first attempt count no more, here and after
  // another restart.
  End(*b, v1::EPISODE_INFRASTRUCTURE_FAILED, 0, "snapshot");
  const auto trunk = Admit();
  Start(std::nullopt);
  EXPECT_FALSE(Admit().has_value());
  End(*trunk, v1::EPISODE_FORKED);
  const auto c = Admit();
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->ref().sample_index(), 0);
  EXPECT_EQ(c->ref().attempt(), 1);
  EXPECT_EQ(c->trunk_id(), FakePool::IdOf(*trunk));
}

TEST_F(BranchingTest, EndsThatAreNoForksAreRejected) {
  const auto first = Admit(), second = Admit();
  v1::ReportEpisodeEndRequest end = EndOf(*first, v1::EPISODE_FORKED);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(end).code(), absl::StatusCode::kInvalidArgument)
      << "without its id and runner";
  End(*first, v1::EPISODE_FORKED);
  end = EndOf(*Admit(), v1::EPISODE_FORKED);
  end.set_episode_id("leaf");
  end.set_runner("r");
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(end).code(), absl::StatusCode::kInvalidArgument) << "a leaf is no trunk";
}

TEST_F(BranchingTest, TicketsSayWhichSnapshotsAreFree) {
  EXPECT_EQ(Admit()->oldest_group(), 0);
  for (int attempt = 0; attempt < 3; ++attempt) End(*Admit(), v1::EPISODE_FAILED);
  const auto next = Admit();  // the first group has failed
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->ref().group_id(), 1);
  EXPECT_EQ(next->oldest_group(), 1);
}

TEST(BranchingOptionsTest, NameTheirFault) {
  SchedulerOptions options = TwoTrunks();
  EXPECT_TRUE(options.Validate().ok());
  options.branching.width = 3;
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("a divisor of group_size 4"));
  options.branching = {.at = 0, .width = 2};
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("agents.branching.at"));
  options.branching = {.at = 1, .width = 0};
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("needs agents.branching.width"));
}

TEST(SampleOfAGroup, IsTheNextOneOfAGroupThatDoesNotBranch) {
  SchedulerOptions options = TwoTrunks();
  options.branching = {};
  FakePool pool;
  const base::ManualClock clock;
  const auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  ASSERT_TRUE(scheduler->Admit({}).ok());
  v1::AdmitRequest request;
  request.set_sample_of(0);
  for (int32_t sample = 1; sample < 4; ++sample) {
    const auto ticket = scheduler->Admit(request);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    EXPECT_EQ(ticket->ref().group_id(), 0);
    EXPECT_EQ(ticket->ref().sample_index(), sample);
  }
  EXPECT_THAT(std::string(scheduler->Admit(request).status().message()), HasSubstr("no samples left"));
  request.set_sample_of(9);
  EXPECT_THAT(std::string(scheduler->Admit(request).status().message()), HasSubstr("group 9 is over"));
}

}  // namespace
}  // namespace ingot::scheduler
