// Evaluations: their tickets come first and pin a version; no batch holds them; each version has one.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

using absl::StatusCode;
using std::chrono::seconds;

class EvalTest : public ::testing::Test {
 protected:
  SchedulerOptions options_{.group_size = 2,
                            .groups_per_step = 1,
                            .max_staleness = 1,
                            .window_fraction = 1,
                            .total_steps = 10,
                            .group_deadline_seconds = 60,
                            .max_attempts = 2};
  FakePool pool_;
  base::ManualClock clock_;
  std::unique_ptr<Scheduler> scheduler_;

  void SetUp() override { Restart(0); }
  void Restart(std::optional<int64_t> resume_step) {
    scheduler_ = MustRecover(options_, pool_, clock_, resume_step);
    if (resume_step.has_value()) {
      ASSERT_TRUE(scheduler_->MarkVersionLive(*resume_step).ok());
    }
  }
  static v1::StartEvalRequest Eval(int64_t version, int tasks, int avg_n) {
    v1::StartEvalRequest request;
    request.set_version(version);
    request.set_avg_n(avg_n);
    for (const v1::Task& task : MakeTasks(tasks)) *request.add_tasks() = task;
    return request;
  }
  v1::Ticket MustAdmit() {
    auto ticket = scheduler_->Admit({});
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    pool_.Open(*ticket);
    return *ticket;
  }
  void End(const v1::Ticket& ticket, v1::EpisodeState state, double reward = 0) {
    pool_.End(EndOf(ticket, state, reward));
    ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(ticket, state, reward)).ok());
  }
  void RunBatch(int64_t step) {
    for (const double reward : {0.0, 1.0}) End(MustAdmit(), v1::EPISODE_FINISHED, reward);
    ASSERT_TRUE(scheduler_->NextBatch(Batch(step)).ok());
  }
};

TEST_F(EvalTest, AnEvaluationWhoseAgentsNeverStartHasNoResult) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 1, 1)).ok());
  for (int i = 0; i < options_.max_attempts; ++i) {
    ASSERT_TRUE(scheduler_->EvalStatus(0).ok());
    v1::ReportEpisodeEndRequest request = EndOf(MustAdmit(), v1::EPISODE_FAILED);
    request.set_before_first_call(true);
    request.set_detail("setup: no disk");
    pool_.End(request);
    ASSERT_TRUE(scheduler_->ReportEpisodeEnd(request).ok());
  }
  const absl::Status given_up = scheduler_->EvalStatus(0).status();
  EXPECT_EQ(given_up.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(given_up.message().find("setup: no disk"), absl::string_view::npos) << given_up;
  for (const auto& record : pool_.state().journal) EXPECT_FALSE(record.has_eval()) << "a 0 of no policy";
}

TEST_F(EvalTest, RunsEveryTaskAvgNTimesBeforeAnyTraining) {
  const auto started = scheduler_->StartEval(Eval(0, 3, 2));
  ASSERT_TRUE(started.ok()) << started.status();
  std::set<std::tuple<int64_t, int32_t>> places;
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(scheduler_->EvalStatus(0)->done());
    const v1::Ticket ticket = MustAdmit();
    EXPECT_EQ(ticket.purpose(), v1::PURPOSE_EVAL);
    EXPECT_EQ(ticket.pinned_version(), 0);
    EXPECT_GE(ticket.ref().group_id(), started->first_group());
    EXPECT_LE(ticket.ref().group_id(), started->last_group());
    places.insert({ticket.ref().group_id(), ticket.ref().sample_index()});
    End(ticket, v1::EPISODE_FINISHED, i < 3 ? 1 : 0);
  }
  EXPECT_EQ(places.size(), 6u);
  const auto status = scheduler_->EvalStatus(0);
  EXPECT_TRUE(status->done());
  EXPECT_EQ(status->total(), 6);
  EXPECT_DOUBLE_EQ(status->reward_mean(), 0.5);
  EXPECT_EQ(pool_.state().journal.back().eval().episodes(), 6);
  EXPECT_EQ(scheduler_->Status()->stats().admitted_unreleased(), 0);  // not counted in B
  EXPECT_EQ(MustAdmit().purpose(), v1::PURPOSE_TRAIN);
}

TEST_F(EvalTest, ASampleThatTheInfrastructureFailedIsOutOfTheMean) {
  options_.max_infrastructure_failures = 2;
  Restart(0);
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 2, 1)).ok());
  const v1::Ticket a = MustAdmit(), b = MustAdmit();
  End(a, v1::EPISODE_FINISHED, 1);
  End(b, v1::EPISODE_INFRASTRUCTURE_FAILED);
  End(MustAdmit(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  const auto status = scheduler_->EvalStatus(0);
  EXPECT_TRUE(status->done());
  EXPECT_EQ(status->failed(), 1);
  EXPECT_DOUBLE_EQ(status->reward_mean(), 1);
}

TEST_F(EvalTest, AnEvaluationOfWhichNothingWasJudgedHasNoMean) {
  options_.max_infrastructure_failures = 1;
  options_.give_up_unstarted = 0;
  Restart(0);
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 1, 1)).ok());
  End(MustAdmit(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  const auto status = scheduler_->EvalStatus(0);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->done());
  EXPECT_TRUE(std::isnan(status->reward_mean()));
}

TEST_F(EvalTest, AFailedEpisodeIsTriedAgainThenCountsAsZero) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 2, 1)).ok());
  const v1::Ticket a = MustAdmit(), b = MustAdmit();
  End(a, v1::EPISODE_FINISHED, 1);
  End(b, v1::EPISODE_FAILED);
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(again.ref().group_id(), b.ref().group_id());
  EXPECT_EQ(again.ref().attempt(), 1);
  End(again, v1::EPISODE_FAILED);
  const auto status = scheduler_->EvalStatus(0);
  EXPECT_TRUE(status->done());
  EXPECT_EQ(status->failed(), 1);
  EXPECT_DOUBLE_EQ(status->reward_mean(), 0.5);
}

TEST_F(EvalTest, AnEpisodeThatNeverEndsCannotHoldTheEvaluation) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 1, 1)).ok());
  MustAdmit();
  clock_.Advance(seconds(60));
  EXPECT_EQ(MustAdmit().ref().attempt(), 1);
  clock_.Advance(seconds(60));
  EXPECT_TRUE(scheduler_->EvalStatus(0)->done());
  EXPECT_EQ(scheduler_->Status()->stats().running_episodes(), 0);
}

TEST_F(EvalTest, StartingIsIdempotentAndBounded) {
  options_.max_active_evals = 1;
  Restart(std::nullopt);
  const auto first = scheduler_->StartEval(Eval(0, 2, 1));
  EXPECT_EQ(scheduler_->StartEval(Eval(0, 2, 1))->first_group(), first->first_group());
  EXPECT_EQ(scheduler_->EvalStatus(0)->total(), 2);
  EXPECT_EQ(scheduler_->StartEval(Eval(0, 3, 1)).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(scheduler_->StartEval(Eval(1, 2, 1)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(scheduler_->StartEval(Eval(1, 0, 1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scheduler_->StartEval(Eval(1, 1, 0)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scheduler_->StartEval(Eval(-1, 1, 1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scheduler_->EvalStatus(5).status().code(), StatusCode::kNotFound);
}

TEST_F(EvalTest, VersionsNeverShareGroups) {
  const auto zero = scheduler_->StartEval(Eval(0, 5, 1)), one = scheduler_->StartEval(Eval(1, 5, 1));
  EXPECT_LT(zero->last_group(), one->first_group());
}

TEST_F(EvalTest, ARestartRunsAnUnfinishedEvaluationAgainUnderNewAttempts) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 2, 1)).ok());
  End(MustAdmit(), v1::EPISODE_FINISHED, 1);
  const v1::Ticket lost = MustAdmit();
  Restart(0);
  EXPECT_EQ(scheduler_->EvalStatus(0).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 2, 1)).ok());
  for (int i = 0; i < 2; ++i) {
    const v1::Ticket ticket = MustAdmit();
    EXPECT_EQ(ticket.ref().attempt(), 1);
    End(ticket, v1::EPISODE_FINISHED, 0);
  }
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(lost, v1::EPISODE_FINISHED, 1))
                  .ok());  // late: an attempt of before the restart
  EXPECT_DOUBLE_EQ(scheduler_->EvalStatus(0)->reward_mean(), 0);
}

TEST_F(EvalTest, ResultsSurviveARestartUnlessTheRunGoesBackBelowTheirVersion) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 1, 1)).ok());
  End(MustAdmit(), v1::EPISODE_FINISHED, 1);
  RunBatch(0);
  ASSERT_TRUE(scheduler_->MarkVersionLive(1).ok());
  ASSERT_TRUE(scheduler_->StartEval(Eval(1, 1, 1)).ok());
  End(MustAdmit(), v1::EPISODE_FINISHED, 0.25);

  Restart(std::nullopt);
  EXPECT_DOUBLE_EQ(scheduler_->EvalStatus(1)->reward_mean(), 0.25);
  ASSERT_TRUE(scheduler_->StartEval(Eval(1, 1, 1)).ok());  // done already: nothing runs
  EXPECT_EQ(MustAdmit().purpose(), v1::PURPOSE_TRAIN);

  Restart(0);
  EXPECT_TRUE(scheduler_->EvalStatus(0)->done());
  EXPECT_EQ(scheduler_->EvalStatus(1).status().code(), StatusCode::kNotFound);  // version 1 is made again
}

TEST_F(EvalTest, TheRunIsNotOverBeforeItsLastEvaluation) {
  options_.total_steps = 1;
  options_.final_eval = true;
  Restart(0);
  RunBatch(0);
  EXPECT_EQ(scheduler_->Admit({}).status().code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(scheduler_->MarkVersionLive(1).ok());
  ASSERT_TRUE(scheduler_->StartEval(Eval(1, 1, 1)).ok());
  const v1::Ticket ticket = MustAdmit();
  EXPECT_EQ(scheduler_->Admit({}).status().code(), StatusCode::kResourceExhausted);
  End(ticket, v1::EPISODE_FINISHED, 1);
  EXPECT_EQ(scheduler_->Admit({}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(EvalTest, RunsAloneWithoutTrainingTasks) {
  options_.total_steps = 0;
  FakePool pool;
  auto scheduler = Scheduler::Recover(options_, {}, pool, clock_, 0);
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  ASSERT_TRUE((*scheduler)->StartEval(Eval(42, 1, 1)).ok());
  const auto ticket = (*scheduler)->Admit({});
  ASSERT_TRUE(ticket.ok());
  ASSERT_TRUE((*scheduler)->ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, 1)).ok());
  EXPECT_TRUE((*scheduler)->EvalStatus(42)->done());
  EXPECT_EQ((*scheduler)->Admit({}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(EvalTest, AJournalFailureDelaysTheResultAndLosesNothing) {
  ASSERT_TRUE(scheduler_->StartEval(Eval(0, 1, 1)).ok());
  const v1::Ticket ticket = MustAdmit();
  pool_.FailNextAppend(FakePool::Fault::kLost);
  EXPECT_FALSE(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED, 1)).ok());
  EXPECT_TRUE(scheduler_->EvalStatus(0)->done());
}

}  // namespace
}  // namespace ingot::scheduler
