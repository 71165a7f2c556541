// Groups that wait for the reward stage: asked once, judged by its answer, and journalled before any batch takes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "../base/manual_executor.h"
#include "base/cause.h"
#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Answers what the test says, and remembers who was asked about.
class ScriptedGrader final : public Grader {
 public:
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override {
    asked.push_back(request.group_id());
    if (const auto it = answers.find(request.group_id()); it != answers.end()) return it->second;
    return absl::UnavailableError("the judge is down");
  }
  void Give(int64_t group, const std::vector<double>& returns, bool equal = false) {
    v1::GradeResponse response;
    response.mutable_returns()->Add(returns.begin(), returns.end());
    response.set_equal(equal);
    response.add_terms("judge");
    for (size_t i = 0; i < returns.size(); ++i) {
      if (returns[i] != returns[i]) (*response.mutable_ungraded())[static_cast<int32_t>(i)] = "the judge was unsure";
    }
    answers[group] = response;
  }

  // The term could judge no episode of the group.
  void FailBy(int64_t group, const std::string& term) {
    Give(group, {kNone, kNone});
    answers[group]->clear_terms();
    answers[group]->set_failed_term(term);
    (*answers[group]->mutable_ungraded())[0] = term + " said \"no idea\"";
  }

  std::vector<int64_t> asked;
  std::map<int64_t, absl::StatusOr<v1::GradeResponse>> answers;
};

class GradingTest : public ::testing::Test {
 protected:
  // B = 2 groups of 2 samples, one group per step.
  SchedulerOptions options_{.group_size = 2,
                            .groups_per_step = 1,
                            .max_staleness = 1,
                            .window_fraction = 1,
                            .total_steps = 10,
                            .group_deadline_seconds = 60};
  FakePool pool_;
  base::ManualExecutor executor_;
  ScriptedGrader grader_;
  int32_t give_up_groups_ = 16;
  base::Metrics* metrics_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;

  void Start() {
    scheduler_.reset();
    auto made = Scheduler::Recover(
        options_, MakeTasks(5), pool_, executor_.clock(), std::nullopt, metrics_,
        {.grader = &grader_, .executor = &executor_.executor(), .deadline_s = 30, .give_up_groups = give_up_groups_});
    ASSERT_TRUE(made.ok()) << made.status();
    scheduler_ = *std::move(made);
    ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
  }
  // Runs a group to its end: both samples report the outcome 1.
  int64_t RunGroup() {
    int64_t group = -1;
    for (int i = 0; i < 2; ++i) {
      const auto ticket = scheduler_->Admit({});
      EXPECT_TRUE(ticket.ok()) << ticket.status();
      pool_.Open(*ticket);
      const auto end = EndOf(*ticket, v1::EPISODE_FINISHED, 1);
      pool_.End(end);
      EXPECT_TRUE(scheduler_->ReportEpisodeEnd(end).ok());
      group = ticket->ref().group_id();
    }
    return group;
  }
  absl::StatusOr<v1::NextBatchResponse> Next(int64_t step) { return scheduler_->NextBatch(Batch(step)); }
  v1::FeedStats Stats() { return scheduler_->Status()->stats(); }
};

TEST_F(GradingTest, ACompleteGroupIsOpenUntilItsRewardIsInTheJournal) {
  Start();
  const int64_t group = RunGroup();
  grader_.Give(group, {0.25, -0.5});
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(Next(0).status().message()), HasSubstr("1 are waiting for their reward"));
  EXPECT_EQ(Stats().grading(), 1);
  executor_.RunReady();
  const auto batch = Next(0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(GroupsOf(*batch), ElementsAre(group));
  EXPECT_EQ(batch->stats().reward_mean(), -0.125) << "the rewards that were given, not those that were reported";
  EXPECT_THAT(grader_.asked, ElementsAre(group));
}

TEST_F(GradingTest, AStageThatIsDownIsAskedAgainUntilItAnswers) {
  Start();
  const int64_t group = RunGroup();
  executor_.RunReady();
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded);
  grader_.Give(group, {0, 1});
  executor_.Advance(seconds(2));
  ASSERT_TRUE(scheduler_->Tick().ok());
  executor_.RunReady();
  EXPECT_TRUE(Next(0).ok());
  EXPECT_THAT(grader_.asked, ElementsAre(group, group));
}

TEST_F(GradingTest, AGroupWhoseRewardTakesTooLongFailsWithTheLastReason) {
  Start();
  RunGroup();
  executor_.RunReady();
  executor_.Advance(seconds(31));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_EQ(Stats().failed(), 1);
  EXPECT_THAT(std::string(Next(0).status().message()), HasSubstr("the judge is down"));
}

TEST_F(GradingTest, AnErrorThatStaysFailsTheGroupAtOnce) {
  Start();
  grader_.answers[RunGroup()] = absl::FailedPreconditionError("term 'retrieval' needs task.relevant");
  executor_.RunReady();
  EXPECT_EQ(Stats().failed(), 1);
  EXPECT_THAT(std::string(Next(0).status().message()), HasSubstr("task.relevant"));
}

TEST_F(GradingTest, TheReasonOfAFailedGroupIsJournalledAsUtf8) {
  Start();
  grader_.answers[RunGroup()] = absl::FailedPreconditionError("rubric '\xE4\xBD");
  executor_.RunReady();
  EXPECT_EQ(pool_.state().journal.back().closed().reason(), "it got no reward: rubric '\xEF\xBF\xBD");
}

TEST_F(GradingTest, AGroupThatTeachesNothingIsDroppedByItsRewardsNotByItsOutcomes) {
  Start();
  grader_.Give(RunGroup(), {0.5, 0.5}, /*equal=*/true);
  executor_.RunReady();
  EXPECT_EQ(Stats().dropped(), 1);
  grader_.Give(RunGroup(), {0.5, 0.25});  // equal outcomes
  executor_.RunReady();
  const auto batch = Next(0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->stats().reward_mean(), (0.5 + 0.5 + 0.5 + 0.25) / 4) << "dropped groups count";
}

TEST_F(GradingTest, AnEpisodeThatCannotBeJudgedCountsInNoMean) {
  Start();
  grader_.Give(RunGroup(), {0.5, kNone});
  executor_.RunReady();
  const auto batch = Next(0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->stats().reward_episodes(), 1);
  EXPECT_EQ(batch->stats().reward_mean(), 0.5);
}

TEST_F(GradingTest, AGroupOfWhichNothingCanBeJudgedFails) {
  Start();
  grader_.Give(RunGroup(), {kNone, kNone});
  executor_.RunReady();
  EXPECT_EQ(Stats().failed(), 1);
  EXPECT_THAT(std::string(Next(0).status().message()), HasSubstr("the judge was unsure"));
}

TEST_F(GradingTest, ARestartAsksForUnjudgedGroupsAndNotForJudgedOnes) {
  Start();
  const int64_t judged = RunGroup();
  grader_.Give(judged, {0.25, -0.5});
  executor_.RunReady();
  const int64_t open = RunGroup();
  executor_.RunReady();  // unavailable
  grader_.asked.clear();
  Start();
  grader_.Give(open, {1, 0});
  ASSERT_TRUE(scheduler_->Tick().ok());
  executor_.RunReady();
  EXPECT_THAT(grader_.asked, ElementsAre(open));
  const auto first = Next(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(GroupsOf(*first), ElementsAre(judged));
  EXPECT_EQ(first->stats().reward_mean(), -0.125) << "from the journal";
  const auto second = Next(1);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(GroupsOf(*second), ElementsAre(open));
}

TEST_F(GradingTest, AnAnswerAfterTheDeadlineChangesNothing) {
  Start();
  const int64_t group = RunGroup();  // asked, and not yet run
  executor_.clock().Advance(seconds(31));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_EQ(Stats().failed(), 1);
  grader_.Give(group, {0, 1});
  executor_.RunReady();
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(GradingTest, ATermThatJudgesNothingInManyGroupsEndsTheRun) {
  give_up_groups_ = 3;
  base::Metrics metrics;
  metrics_ = &metrics;
  Start();
  const auto fail = [&](const std::string& term) {
    grader_.FailBy(RunGroup(), term);
    executor_.RunReady();
  };
  fail("judge");
  fail("judge");
  fail("external");  // each term is counted by itself
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded);
  fail("judge");
  const absl::Status over = Next(0).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over.message()),
              HasSubstr("the reward term 'judge' has scored no episode in 3 consecutive groups"));
  EXPECT_THAT(std::string(over.message()), HasSubstr("rewards.give_up_groups"));
  EXPECT_THAT(std::string(over.message()), HasSubstr("judge said \"no idea\""));
  EXPECT_THAT(metrics.RenderText(), HasSubstr("ingot_scheduler_failed_terms_total{term=\"judge\"} 3"));
  Start();
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded) << "a restart begins anew";
}

TEST_F(GradingTest, ATermThatJudgesAGroupInBetweenIsCountedAnew) {
  give_up_groups_ = 2;
  Start();
  for (int step = 0; step < 3; ++step) {
    grader_.FailBy(RunGroup(), "judge");
    executor_.RunReady();
    grader_.Give(RunGroup(), {0, 1});
    executor_.RunReady();
    ASSERT_TRUE(Next(step).ok()) << step;
    ASSERT_TRUE(scheduler_->MarkVersionLive(step + 1).ok());
  }
}

// Groups of another domain, which the term does not judge, go on.
TEST_F(GradingTest, OtherTermsDoNotSaveTheOneThatFails) {
  give_up_groups_ = 2;
  Start();
  grader_.FailBy(RunGroup(), "judge");
  executor_.RunReady();
  grader_.Give(RunGroup(), {0, 1});
  grader_.answers.rbegin()->second->clear_terms();
  executor_.RunReady();
  grader_.FailBy(RunGroup(), "judge");
  executor_.RunReady();
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kFailedPrecondition) << "though a batch is ready";
}

TEST_F(GradingTest, AServerThatIsDownUntilTheDeadlineCountsToo) {
  give_up_groups_ = 1;
  Start();
  grader_.answers[RunGroup()] = base::WithCause(absl::UnavailableError("the judge is down"), "judge");
  executor_.RunReady();
  EXPECT_THAT(std::string(Next(0).status().message()), HasSubstr("(the last attempt: the judge is down)"));
  executor_.Advance(seconds(31));
  ASSERT_TRUE(scheduler_->Tick().ok());
  const absl::Status over = Next(0).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over.message()), HasSubstr("term 'judge'"));
  EXPECT_THAT(std::string(over.message()), HasSubstr("the judge is down"));
}

TEST_F(GradingTest, WithoutABoundTheRunGoesOn) {
  give_up_groups_ = 0;
  Start();
  for (int i = 0; i < 20; ++i) {
    grader_.FailBy(RunGroup(), "judge");
    executor_.RunReady();
  }
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(GradingTest, ARunWhoseTasksAreUsedUpEndsWithTheReason) {
  options_.sampling.once = true;  // five tasks
  options_.max_staleness = 4;
  Start();
  for (int step = 0; step < 5; ++step) {
    grader_.Give(RunGroup(), {0, 1});
    executor_.RunReady();
    ASSERT_TRUE(Next(step).ok());
  }
  const absl::Status over = Next(5).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over.message()), HasSubstr("every task was used once"));
  Start();
  EXPECT_EQ(Next(5).status().code(), absl::StatusCode::kFailedPrecondition) << "through a restart";
}

TEST_F(GradingTest, NothingIsAskedAfterShutdown) {
  Start();
  RunGroup();
  scheduler_->Shutdown();
  executor_.RunReady();
  EXPECT_EQ(Next(0).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace ingot::scheduler
