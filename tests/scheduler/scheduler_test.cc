#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/retry.h"
#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

using absl::StatusCode;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SchedulerTest : public ::testing::Test {
 protected:
  // B = 2 groups of 2 samples, one group per step.
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

  void Start() {
    scheduler_ = MustRecover(options_, pool_, clock_, 0);
    ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
  }
  v1::Ticket MustAdmit() {
    auto ticket = scheduler_->Admit({});
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    if (!ticket.ok()) return {};
    pool_.Open(*ticket);
    return *ticket;
  }
  StatusCode AdmitCode() { return scheduler_->Admit({}).status().code(); }
  void End(const v1::Ticket& ticket, v1::EpisodeState state, double reward = 0) {
    const auto request = EndOf(ticket, state, reward);
    pool_.End(request);
    const absl::Status status = scheduler_->ReportEpisodeEnd(request);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Runs the next group to its end, with these rewards.
  int64_t RunGroup(const std::vector<double>& rewards) {
    int64_t group = -1;
    for (const double reward : rewards) {
      const v1::Ticket ticket = MustAdmit();
      group = ticket.ref().group_id();
      End(ticket, v1::EPISODE_FINISHED, reward);
    }
    return group;
  }
  v1::FeedStats Stats() { return scheduler_->Status()->stats(); }
  std::vector<v1::GroupClosed> Closed() {
    std::vector<v1::GroupClosed> closed;
    for (const auto& record : pool_.state().journal) {
      if (record.has_closed()) closed.push_back(record.closed());
    }
    return closed;
  }
};

// ---- Admission

TEST_F(SchedulerTest, HandsOutAllSamplesOfAGroupBeforeTheNextGroup) {
  Start();
  std::vector<std::pair<int64_t, int32_t>> places;
  for (int i = 0; i < 4; ++i) {
    const v1::Ticket ticket = MustAdmit();
    places.emplace_back(ticket.ref().group_id(), ticket.ref().sample_index());
    EXPECT_EQ(ticket.pinned_version(), -1);
    EXPECT_EQ(ticket.purpose(), v1::PURPOSE_TRAIN);
    EXPECT_FALSE(ticket.task().task_id().empty());
  }
  EXPECT_THAT(places, ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(1, 0), std::pair(1, 1)));
}

v1::AdmitRequest Named(const std::string& group, const std::string& task) {
  v1::AdmitRequest request;
  request.set_group(group);
  request.mutable_task()->set_task_id(task);
  return request;
}

TEST_F(SchedulerTest, ANamedGroupHasItsOwnTaskAndGivesItsSamplesToNobodyElse) {
  Start();
  const auto admit = [&](const std::string& group, const std::string& task) {
    auto ticket = scheduler_->Admit(Named(group, task));
    if (ticket.ok()) pool_.Open(*ticket);
    return ticket;
  };
  const auto first = admit("g", "mine");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->task().task_id(), "mine");
  EXPECT_EQ(first->ref().group_id(), 0);
  // Another agent does not get its second sample.
  const v1::Ticket other = MustAdmit();
  EXPECT_EQ(other.ref().group_id(), 1);
  EXPECT_NE(other.task().task_id(), "mine");
  EXPECT_EQ(admit("g", "another").status().code(), StatusCode::kInvalidArgument);
  const auto second = admit("g", "mine");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->ref().group_id(), 0);
  EXPECT_EQ(second->ref().sample_index(), 1);
  EXPECT_EQ(admit("g", "mine").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(admit("h", "mine").status().code(), StatusCode::kResourceExhausted) << "the window is full";
  // A failed sample goes to a request with the group's name again.
  End(*second, v1::EPISODE_FAILED);
  const auto again = admit("g", "mine");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->ref().attempt(), 1);
  End(*first, v1::EPISODE_FINISHED, 1);
  End(*again, v1::EPISODE_FINISHED, 0);
  ASSERT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
  EXPECT_EQ(admit("g", "mine").status().code(), StatusCode::kFailedPrecondition) << "it was trained";
}

TEST_F(SchedulerTest, ANameWithoutATaskOrATaskWithoutANameIsRejected) {
  Start();
  v1::AdmitRequest request = Named("g", "t");
  request.clear_task();
  EXPECT_EQ(scheduler_->Admit(request).status().code(), StatusCode::kInvalidArgument);
  request = Named("", "t");
  EXPECT_EQ(scheduler_->Admit(request).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SchedulerTest, ANamedGroupOutlivesTheScheduler) {
  Start();
  const auto first = scheduler_->Admit(Named("g", "mine"));
  ASSERT_TRUE(first.ok());
  pool_.Open(*first);
  End(*first, v1::EPISODE_FINISHED, 1);
  scheduler_ = MustRecover(options_, pool_, clock_, 0);
  ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
  const v1::Ticket other = MustAdmit();
  EXPECT_EQ(other.ref().group_id(), 1);
  const auto second = scheduler_->Admit(Named("g", "mine"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->ref().group_id(), 0);
  EXPECT_EQ(second->ref().sample_index(), 1);
}

TEST_F(SchedulerTest, AFullWindowIsResourceExhaustedWithARetryTime) {
  Start();
  for (int i = 0; i < 4; ++i) MustAdmit();
  const absl::Status full = scheduler_->Admit({}).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(base::RetryAfterMs(full), options_.retry_after_ms);
}

TEST_F(SchedulerTest, NothingIsAdmittedBeforeAVersionIsLive) {
  scheduler_ = MustRecover(options_, pool_, clock_, 0);
  EXPECT_EQ(AdmitCode(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(pool_.state().journal.empty());
  ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
  MustAdmit();
}

TEST_F(SchedulerTest, AGroupIsJournalledBeforeItsFirstTicket) {
  Start();
  const v1::Ticket ticket = MustAdmit();
  const auto journal = pool_.state().journal;
  ASSERT_EQ(journal.size(), 2u);  // version 0 live, group 0
  EXPECT_EQ(journal[1].admitted().group_id(), 0);
  EXPECT_EQ(journal[1].admitted().task().task_id(), ticket.task().task_id());
  EXPECT_EQ(journal[1].admitted().group_size(), 2);
}

TEST_F(SchedulerTest, ReconcileEndsOrRetriesTheEpisodesOfADeadGateway) {
  Start();
  const v1::Ticket open = MustAdmit();
  const v1::Ticket untold = MustAdmit();
  pool_.End(EndOf(untold, v1::EPISODE_FINISHED, 1));  // and the gateway died before it reported the end
  const v1::Ticket failed = MustAdmit();
  pool_.End(EndOf(failed, v1::EPISODE_FAILED));
  const auto lost = scheduler_->Admit({});  // and it died before it stored the episode
  ASSERT_TRUE(lost.ok());
  EXPECT_EQ(AdmitCode(), StatusCode::kResourceExhausted);
  for (int again = 0; again < 2; ++again) {
    const auto found = scheduler_->Reconcile({});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->running(), 1);
    EXPECT_EQ(found->ended(), again == 0 ? 2 : 0);
    EXPECT_EQ(found->lost(), again == 0 ? 1 : 0);
  }
  EXPECT_EQ(Stats().running_episodes(), 1);
  // Both samples wait again; the lost one has not failed.
  std::vector<std::pair<int32_t, int32_t>> samples;
  for (int i = 0; i < 2; ++i) {
    const v1::Ticket ticket = MustAdmit();
    EXPECT_EQ(ticket.ref().group_id(), lost->ref().group_id());
    samples.emplace_back(ticket.ref().sample_index(), ticket.ref().attempt());
  }
  EXPECT_THAT(samples, ElementsAre(std::pair(0, 1), std::pair(1, 1)));
  End(open, v1::EPISODE_FINISHED, 0);
  const auto batch = scheduler_->NextBatch(Batch(0));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(GroupsOf(*batch), ElementsAre(open.ref().group_id()));
}

TEST_F(SchedulerTest, ReconcileLeavesTheEpisodesOfOtherGateways) {
  Start();
  const auto admit = [&](const std::string& gateway) {
    v1::AdmitRequest request;
    request.set_gateway(gateway);
    return scheduler_->Admit(request).value();
  };
  const v1::Ticket alive = admit("gateway");  // about to be stored
  const v1::Ticket dead = admit("gateway-1");
  v1::ReconcileRequest request;
  request.set_gateway("gateway-1");
  EXPECT_EQ(scheduler_->Reconcile(request)->lost(), 1);
  EXPECT_EQ(Stats().running_episodes(), 1);
  const v1::Ticket again = admit("gateway");
  EXPECT_EQ(again.ref().sample_index(), dead.ref().sample_index());
  EXPECT_EQ(again.ref().attempt(), 1);
  pool_.Open(alive);
  EXPECT_EQ(scheduler_->Reconcile(request)->running(), 1);
  EXPECT_EQ(Stats().running_episodes(), 2);
}

TEST_F(SchedulerTest, ReconcilesEvaluationsToo) {
  Start();
  v1::StartEvalRequest eval;
  eval.set_version(0);
  for (const v1::Task& task : MakeTasks(2)) *eval.add_tasks() = task;
  eval.set_avg_n(1);
  ASSERT_TRUE(scheduler_->StartEval(eval).ok());
  const v1::Ticket untold = MustAdmit();
  pool_.End(EndOf(untold, v1::EPISODE_FINISHED, 1));
  pool_.RewardCall(untold, "a call", 0.5);
  const auto lost = scheduler_->Admit({});
  ASSERT_TRUE(lost.ok());
  ASSERT_EQ(lost->purpose(), v1::PURPOSE_EVAL);
  ASSERT_TRUE(scheduler_->Reconcile({}).ok());
  EXPECT_EQ(scheduler_->EvalStatus(0)->finished(), 1);
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(again.ref().attempt(), lost->ref().attempt() + 1);
  End(again, v1::EPISODE_FINISHED, 1);
  EXPECT_TRUE(scheduler_->EvalStatus(0)->done());
  EXPECT_EQ(scheduler_->EvalStatus(0)->reward_mean(), 1.25) << "of 1 + 0.5, what single calls earned included, and 1";
}

TEST_F(SchedulerTest, BoundsRunningEpisodes) {
  options_.max_concurrent_episodes = 1;
  Start();
  const v1::Ticket ticket = MustAdmit();
  EXPECT_EQ(AdmitCode(), StatusCode::kResourceExhausted);
  End(ticket, v1::EPISODE_FINISHED, 1);
  MustAdmit();
}

TEST_F(SchedulerTest, AfterTheLastBatchTheRunIsOver) {
  options_.total_steps = 1;
  Start();
  RunGroup({0, 1});
  EXPECT_EQ(AdmitCode(), StatusCode::kResourceExhausted);  // no further group is needed; this one could still fail
  ASSERT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
  EXPECT_EQ(AdmitCode(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(scheduler_->Status()->finished());
  EXPECT_EQ(scheduler_->NextBatch(Batch(1)).status().code(), StatusCode::kOutOfRange);
}

// ---- Attempts

TEST_F(SchedulerTest, AFailedSampleComesBackFirstAsTheNextAttempt) {
  Start();
  const v1::Ticket first = MustAdmit();
  MustAdmit();
  End(first, v1::EPISODE_FAILED);
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(again.ref().group_id(), 0);
  EXPECT_EQ(again.ref().sample_index(), 0);
  EXPECT_EQ(again.ref().attempt(), 1);
}

TEST_F(SchedulerTest, AnOlderAttemptIsFenced) {
  Start();
  const v1::Ticket first = MustAdmit();
  End(first, v1::EPISODE_FAILED);
  const v1::Ticket again = MustAdmit();
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(first, v1::EPISODE_FINISHED, 100)).ok());  // late: ignored
  End(again, v1::EPISODE_FINISHED, 1);
  RunGroup({0});
  EXPECT_EQ(scheduler_->NextBatch(Batch(0))->stats().reward_mean(), 0.5);
}

TEST_F(SchedulerTest, AnEndOfAnAttemptThatWasNotHandedOutIsRejected) {
  Start();
  v1::Ticket ticket = MustAdmit();
  ticket.mutable_ref()->set_attempt(1);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED)).code(), StatusCode::kInvalidArgument);
  ticket.mutable_ref()->set_attempt(0);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_OPEN)).code(), StatusCode::kInvalidArgument);
  ticket.mutable_ref()->set_sample_index(2);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED)).code(), StatusCode::kInvalidArgument);
  ticket.mutable_ref()->set_group_id(7);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED)).code(), StatusCode::kInvalidArgument);
  ticket.set_purpose(v1::PURPOSE_SERVE);
  EXPECT_EQ(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED)).code(), StatusCode::kInvalidArgument);
}

TEST_F(SchedulerTest, AnEndReportedTwiceCountsOnce) {
  Start();
  const v1::Ticket ticket = MustAdmit();
  End(ticket, v1::EPISODE_FAILED);
  End(ticket, v1::EPISODE_FAILED);
  EXPECT_EQ(MustAdmit().ref().attempt(), 1);
  EXPECT_EQ(Stats().failed(), 0);
}

TEST_F(SchedulerTest, TooManyFailedAttemptsFailTheGroupAndReleaseItsSlot) {
  Start();
  for (int i = 0; i < 4; ++i) MustAdmit();
  v1::Ticket ticket;
  ticket.set_purpose(v1::PURPOSE_TRAIN);
  End(ticket, v1::EPISODE_FAILED);  // group 0, sample 0, attempt 0
  ticket = MustAdmit();
  End(ticket, v1::EPISODE_FAILED);
  ASSERT_EQ(Closed().size(), 1u);
  EXPECT_EQ(Closed()[0].outcome(), v1::GROUP_FAILED);
  EXPECT_THAT(Closed()[0].reason(), HasSubstr("2 attempts"));
  EXPECT_EQ(Stats().running_episodes(), 2);  // group 1's; what runs of group 0 counts no longer
  EXPECT_EQ(MustAdmit().ref().group_id(), 2);
  EXPECT_EQ(Stats().head(), 1);
}

TEST_F(SchedulerTest, ARunInWhichAllGroupsFailIsGivenUp) {
  options_.give_up_seconds = 100;
  options_.max_attempts = 1;
  options_.drop_zero_variance = false;
  Start();
  const auto fail = [&](int groups) {
    for (int i = 0; i < groups; ++i) {
      End(MustAdmit(), v1::EPISODE_FAILED);
      clock_.Advance(seconds(50));
    }
  };
  const auto asked = [&](int64_t step) { return scheduler_->NextBatch(Batch(step)).status(); };
  fail(2);
  EXPECT_EQ(asked(0).code(), StatusCode::kDeadlineExceeded) << "no more failures than groups may be in use";
  RunGroup({0, 1});
  ASSERT_TRUE(asked(0).ok());
  fail(2);
  EXPECT_EQ(asked(1).code(), StatusCode::kDeadlineExceeded) << "one finished among them";
  fail(1);
  const absl::Status given_up = asked(1);
  EXPECT_EQ(given_up.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("all of 3 groups have failed"));
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("the last failure: group 5: "));
  RunGroup({0, 1});
  EXPECT_TRUE(asked(1).ok()) << "a full batch is trained all the same";
}

TEST_F(SchedulerTest, WithoutABoundARunIsNotGivenUp) {
  options_.give_up_seconds = 0;
  options_.max_attempts = 1;
  Start();
  for (int i = 0; i < 20; ++i) {
    End(MustAdmit(), v1::EPISODE_FAILED);
    clock_.Advance(seconds(1000));
  }
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, AFailureOfTheInfrastructureIsTriedAgainAndDoesNotCountAgainstItsSample) {
  options_.max_infrastructure_failures = 4;
  options_.give_up_unstarted = 0;
  Start();
  const v1::Ticket first = MustAdmit();
  End(first, v1::EPISODE_INFRASTRUCTURE_FAILED);
  for (int attempt = 1; attempt < 4; ++attempt) {
    const v1::Ticket again = MustAdmit();
    EXPECT_EQ(again.ref().sample_index(), first.ref().sample_index());
    EXPECT_EQ(again.ref().attempt(), attempt);
    End(again, v1::EPISODE_INFRASTRUCTURE_FAILED);
    EXPECT_EQ(scheduler_->Status()->stats().failed(), attempt < 3 ? 0 : 1)
        << "more than max_attempts, and then no more";
  }
  EXPECT_THAT(std::string(scheduler_->NextBatch(Batch(0)).status().message()),
              HasSubstr("4 through no fault of the agent"));
}

TEST_F(SchedulerTest, FailuresOfTheInfrastructureAreCountedThroughARestart) {
  options_.max_infrastructure_failures = 2;
  options_.give_up_unstarted = 0;
  Start();
  End(MustAdmit(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  scheduler_ = MustRecover(options_, pool_, clock_, std::nullopt);
  End(MustAdmit(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(scheduler_->Status()->stats().failed(), 1);
}

// Ends an episode before any agent's first call, or after it, with a failure that is of the set-up or is not.
struct UnstartedTest : SchedulerTest {
  v1::ReportEpisodeEndRequest End(v1::EpisodeState state, bool before_first_call, bool of_setup) {
    v1::ReportEpisodeEndRequest request =
        EndOf(MustAdmit(), of_setup && state == v1::EPISODE_FAILED ? v1::EPISODE_INFRASTRUCTURE_FAILED : state, 1);
    request.set_before_first_call(before_first_call);
    request.set_detail("setup: no disk");
    pool_.End(request);
    EXPECT_TRUE(scheduler_->ReportEpisodeEnd(request).ok());
    return request;
  }
  absl::Status Asked() { return scheduler_->NextBatch(Batch(0)).status(); }
};

TEST_F(UnstartedTest, ARunWhoseAgentsNeverStartIsGivenUpAfterAFew) {
  for (const auto& [before_first_call, of_setup] : {std::pair(true, false), {false, true}, {true, true}}) {
    options_.give_up_unstarted = 3;
    Start();
    for (int i = 0; i < 2; ++i) End(v1::EPISODE_FAILED, before_first_call, of_setup);
    EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded);
    End(v1::EPISODE_FAILED, before_first_call, of_setup);
    const absl::Status given_up = Asked();
    EXPECT_EQ(given_up.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(given_up.message()), HasSubstr("3 consecutive episodes have failed"));
    EXPECT_THAT(std::string(given_up.message()), HasSubstr("the last failure: setup: no disk"));
  }
}

// The answer to a report may be lost, and its gateway reports again.
TEST_F(UnstartedTest, AFailureThatIsReportedAgainCountsOnce) {
  options_.give_up_unstarted = 3;
  options_.max_attempts = 1;
  Start();
  const v1::ReportEpisodeEndRequest first = End(v1::EPISODE_FAILED, true, false);
  ASSERT_EQ(Stats().failed(), 1) << "its group is over";
  const v1::ReportEpisodeEndRequest second = End(v1::EPISODE_FAILED, true, true);
  for (const auto& again : {first, second, first, second}) EXPECT_TRUE(scheduler_->ReportEpisodeEnd(again).ok());
  EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded);
  End(v1::EPISODE_FAILED, true, true);
  EXPECT_EQ(Asked().code(), StatusCode::kFailedPrecondition);
}

// Both samples of a group run when the first one fails it.
TEST_F(UnstartedTest, TheEndOfAnAttemptWhoseGroupIsOverCounts) {
  options_.give_up_unstarted = 2;
  options_.max_attempts = 1;
  Start();
  const v1::Ticket first = MustAdmit(), second = MustAdmit();
  for (const v1::Ticket& ticket : {first, second}) {
    v1::ReportEpisodeEndRequest request = EndOf(ticket, v1::EPISODE_FAILED);
    request.set_before_first_call(true);
    pool_.End(request);
    EXPECT_TRUE(scheduler_->ReportEpisodeEnd(request).ok());
  }
  EXPECT_EQ(Asked().code(), StatusCode::kFailedPrecondition);
}

TEST_F(UnstartedTest, FailuresOfAgentsThatCalledAreTheirOwn) {
  options_.give_up_unstarted = 3;
  options_.max_attempts = 100;
  Start();
  for (int i = 0; i < 5; ++i) End(v1::EPISODE_FAILED, false, false);
  for (int i = 0; i < 2; ++i) End(v1::EPISODE_FAILED, false, true);
  End(v1::EPISODE_FAILED, false, false);
  for (int i = 0; i < 2; ++i) End(v1::EPISODE_FAILED, false, true);
  EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded) << "not all are of the set-up";
}

TEST_F(UnstartedTest, ARunIsNotGivenUpForStopsNorAfterAnEpisodeFinished) {
  options_.give_up_unstarted = 2;
  options_.max_attempts = 100;
  Start();
  for (int i = 0; i < 5; ++i) End(v1::EPISODE_FENCED, true, true);
  EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded);
  End(v1::EPISODE_FAILED, true, true);
  End(v1::EPISODE_FINISHED, true, false);  // an agent that needs no model
  for (int i = 0; i < 5; ++i) End(v1::EPISODE_FAILED, true, true);
  EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded);
}

// An external server that every set-up needs stays down.
TEST_F(UnstartedTest, ARunThatFinishedAnEpisodeIsGivenUpOnceSetUpsFailForTheWholeTime) {
  options_.give_up_unstarted = 2;
  options_.give_up_seconds = 100;
  options_.max_infrastructure_failures = 100;
  Start();
  End(v1::EPISODE_FINISHED, true, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Asked().code(), StatusCode::kDeadlineExceeded);
    End(v1::EPISODE_FAILED, true, true);
    clock_.Advance(seconds(40));
  }
  const absl::Status given_up = Asked();
  EXPECT_EQ(given_up.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("start the run again: setup: no disk"));
}

TEST_F(SchedulerTest, ARewardThatIsNoNumberIsAFailedAttempt) {
  Start();
  End(MustAdmit(), v1::EPISODE_FINISHED, std::nan(""));
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(again.ref().attempt(), 1);
  End(again, v1::EPISODE_FINISHED, std::numeric_limits<double>::infinity());
  EXPECT_EQ(Stats().failed(), 1);
}

TEST_F(SchedulerTest, AGroupPastItsDeadlineFails) {
  Start();
  const v1::Ticket ticket = MustAdmit();
  clock_.Advance(seconds(59));
  MustAdmit();
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_TRUE(Closed().empty());
  clock_.Advance(seconds(1));
  ASSERT_TRUE(scheduler_->Tick().ok());
  ASSERT_EQ(Closed().size(), 1u);
  EXPECT_EQ(Closed()[0].outcome(), v1::GROUP_FAILED);
  EXPECT_THAT(Closed()[0].reason(), HasSubstr("deadline"));
  EXPECT_EQ(Stats().running_episodes(), 0);
  End(ticket, v1::EPISODE_FINISHED, 1);  // late: OK, and changes nothing
  EXPECT_EQ(Stats().admitted_unreleased(), 0);
}

TEST_F(SchedulerTest, AGroupsTimeStandsStillWhileEvaluationsGoFirst) {
  Start();
  End(MustAdmit(), v1::EPISODE_FINISHED, 0);
  const v1::Ticket runs = MustAdmit(), other = MustAdmit();  // groups 0 and 1
  clock_.Advance(seconds(20));
  End(other, v1::EPISODE_FAILED);
  v1::StartEvalRequest eval;
  for (const v1::Task& task : MakeTasks(3)) *eval.add_tasks() = task;
  eval.set_avg_n(1);
  ASSERT_TRUE(scheduler_->StartEval(eval).ok());
  for (int i = 0; i < 3; ++i) {
    const v1::Ticket held_out = MustAdmit();
    ASSERT_EQ(held_out.purpose(), v1::PURPOSE_EVAL);
    clock_.Advance(seconds(50));
    End(held_out, v1::EPISODE_FINISHED, 1);
  }
  ASSERT_EQ(Closed().size(), 1u) << "the time of a running group goes on";
  EXPECT_EQ(Closed()[0].group_id(), runs.ref().group_id());
  const v1::Ticket again = MustAdmit();
  EXPECT_EQ(again.ref().group_id(), other.ref().group_id());
  // 20 of its 60 seconds are gone.
  clock_.Advance(seconds(39));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_EQ(Closed().size(), 1u);
  clock_.Advance(seconds(1));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_EQ(Closed().size(), 2u);
}

TEST_F(SchedulerTest, ANamedGroupsTimeRunsAlsoWhileEvaluationsGoFirst) {
  Start();
  v1::AdmitRequest named;
  named.set_group("mine");
  named.mutable_task()->set_task_id("own");
  const auto ticket = scheduler_->Admit(named);
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  pool_.Open(*ticket);
  End(*ticket, v1::EPISODE_FINISHED, 1);  // and nobody comes for its other sample
  v1::StartEvalRequest eval;
  *eval.add_tasks() = MakeTasks(1)[0];
  eval.set_avg_n(1);
  ASSERT_TRUE(scheduler_->StartEval(eval).ok());
  clock_.Advance(seconds(60));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_EQ(Closed().size(), 1u);
}

TEST_F(SchedulerTest, AFinishedGroupHasNoDeadline) {
  Start();
  RunGroup({0, 1});
  clock_.Advance(seconds(3600));
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
}

// ---- Drops and the feed

TEST_F(SchedulerTest, AGroupWithoutVarianceIsDroppedAndToppedUp) {
  Start();
  RunGroup({1, 1});
  ASSERT_EQ(Closed().size(), 1u);
  EXPECT_EQ(Closed()[0].outcome(), v1::GROUP_DROPPED);
  EXPECT_EQ(Stats().admitted_unreleased(), 0);
  EXPECT_EQ(RunGroup({0, 0.5}), 1);
  const auto response = scheduler_->NextBatch(Batch(0));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(GroupsOf(*response), ElementsAre(1));
  EXPECT_EQ(response->stats().dropped(), 1);
  EXPECT_EQ(response->stats().dropped_fraction(), 0.5);
  EXPECT_EQ(response->stats().reward_episodes(), 4);
  EXPECT_DOUBLE_EQ(response->stats().reward_mean(), 2.5 / 4);  // the dropped group included
}

TEST_F(SchedulerTest, WithoutTheFilterEqualRewardsAreTrained) {
  options_.drop_zero_variance = false;
  Start();
  RunGroup({1, 1});
  EXPECT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
}

TEST_F(SchedulerTest, AGroupOfOneIsNeverDropped) {
  options_.group_size = 1;
  Start();
  RunGroup({1});
  EXPECT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
}

TEST_F(SchedulerTest, MaxDropsPerBatchBoundsTheDrops) {
  options_.max_drops_per_batch = 2;
  Start();
  RunGroup({1, 1});
  RunGroup({1, 1});
  RunGroup({1, 1});  // trained all the same
  EXPECT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(0))), ElementsAre(2));
  ASSERT_TRUE(scheduler_->MarkVersionLive(1).ok());
  RunGroup({1, 1});  // dropped again: a new batch
  EXPECT_EQ(Stats().dropped(), 3);
}

TEST_F(SchedulerTest, ARunWhoseGroupsAreAllEqualIsGivenUp) {
  options_.give_up_equal = 4;
  Start();
  const auto drop = [&](int groups, double reward) {
    for (int i = 0; i < groups; ++i) RunGroup({reward, reward});
  };
  const auto asked = [&](int64_t step) { return scheduler_->NextBatch(Batch(step)).status(); };
  drop(3, 1);
  EXPECT_EQ(asked(0).code(), StatusCode::kDeadlineExceeded);
  RunGroup({0, 1});  // group 3: the count begins anew
  ASSERT_TRUE(asked(0).ok());
  ASSERT_TRUE(scheduler_->MarkVersionLive(1).ok());
  drop(3, 0);
  EXPECT_EQ(asked(1).code(), StatusCode::kDeadlineExceeded);
  drop(1, 0);
  const absl::Status given_up = asked(1);
  EXPECT_EQ(given_up.code(), StatusCode::kFailedPrecondition);
  for (const char* said : {"the last 4 graded groups", "scheduler.give_up_equal", "batch 1 has 0 of 1 groups",
                           "all of their samples earned 0;", "group 7", "max_drops_per_batch"}) {
    EXPECT_THAT(std::string(given_up.message()), HasSubstr(said));
  }
  RunGroup({0, 1});
  EXPECT_TRUE(asked(1).ok()) << "a full batch is trained all the same";
}

TEST_F(SchedulerTest, TheCountOfEqualGroupsSurvivesRestartsAndBeginsAnewOnceItEndedTheRun) {
  options_.give_up_equal = 4;
  const auto ask = [&] { return scheduler_->NextBatch(Batch(0)).status(); };
  for (int life = 0; life < 2; ++life) {
    Start();
    RunGroup({1, 1});
    RunGroup({0, 0});
    Start();
    RunGroup({0.5, 0.5});
    EXPECT_EQ(ask().code(), StatusCode::kDeadlineExceeded);
    Start();
    RunGroup({1, 1});
    EXPECT_EQ(ask().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(ask().message()), HasSubstr("their samples earned from 0 to 1"));
  }
}

TEST_F(SchedulerTest, ARunThatTrainsEqualGroupsOrHasNoBoundIsNotGivenUp) {
  options_.give_up_equal = 0;
  Start();
  for (int i = 0; i < 6; ++i) RunGroup({1, 1});
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kDeadlineExceeded);
  options_.give_up_equal = 2;
  options_.max_drops_per_batch = 8;
  Start();
  RunGroup({1, 1});
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, ABatchIsJournalledAndAnsweredAgainWithTheSameStats) {
  options_.groups_per_step = 2;
  Start();
  RunGroup({0, 1});
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kDeadlineExceeded);
  RunGroup({0, 0.5});
  const auto first = scheduler_->NextBatch(Batch(0));
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(GroupsOf(*first), ElementsAre(0, 1));
  EXPECT_EQ(pool_.state().journal.back().batch().step(), 0);
  const auto size = pool_.state().journal.size();
  const auto again = scheduler_->NextBatch(Batch(0));
  EXPECT_EQ(again->SerializeAsString(), first->SerializeAsString());
  EXPECT_EQ(pool_.state().journal.size(), size);
}

TEST_F(SchedulerTest, ABatchBeforeItsTurnIsRejected) {
  Start();
  EXPECT_EQ(scheduler_->NextBatch(Batch(1)).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(scheduler_->NextBatch(Batch(-1)).status().code(), StatusCode::kOutOfRange);
}

TEST_F(SchedulerTest, AnExpiredWaitNamesTheMissingGroups) {
  Start();
  MustAdmit();
  const absl::Status status = scheduler_->NextBatch(Batch(0)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 of 1 groups; 1 episodes are running"));
}

TEST_F(SchedulerTest, NextBatchBlocksUntilTheBatchIsFull) {
  Start();
  const v1::Ticket a = MustAdmit(), b = MustAdmit();
  std::thread trainer([&] {
    const auto response = scheduler_->NextBatch(Batch(0, 60'000));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_THAT(GroupsOf(*response), ElementsAre(0));
  });
  End(a, v1::EPISODE_FINISHED, 0);
  End(b, v1::EPISODE_FINISHED, 1);
  trainer.join();
}

TEST_F(SchedulerTest, ShutdownUnblocksTheTrainerAndRejectsAll) {
  Start();
  std::thread trainer(
      [&] { EXPECT_EQ(scheduler_->NextBatch(Batch(0, 60'000)).status().code(), StatusCode::kCancelled); });
  scheduler_->Shutdown();
  trainer.join();
  EXPECT_EQ(AdmitCode(), StatusCode::kCancelled);
}

TEST_F(SchedulerTest, SlotsOfABatchAreReleasedWhenItsVersionIsLive) {
  Start();
  RunGroup({0, 1});
  RunGroup({0, 1});
  ASSERT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
  EXPECT_EQ(AdmitCode(), StatusCode::kResourceExhausted);
  EXPECT_EQ(scheduler_->MarkVersionLive(2).code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(scheduler_->MarkVersionLive(1).ok());
  ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());  // reported late: changes nothing
  const v1::Ticket ticket = MustAdmit();
  EXPECT_EQ(ticket.ref().group_id(), 2);
  EXPECT_EQ(ticket.admitted_version(), 1);
}

TEST_F(SchedulerTest, ACheckpointIsJournalledOnceAndHoldsOnlyFedBatches) {
  Start();
  v1::CheckpointRequest request;
  request.set_step(1);
  EXPECT_EQ(scheduler_->MarkCheckpoint(request).code(), StatusCode::kFailedPrecondition);
  RunGroup({0, 1});
  ASSERT_TRUE(scheduler_->NextBatch(Batch(0)).ok());
  ASSERT_TRUE(scheduler_->MarkCheckpoint(request).ok());
  const auto size = pool_.state().journal.size();
  ASSERT_TRUE(scheduler_->MarkCheckpoint(request).ok());
  EXPECT_EQ(pool_.state().journal.size(), size);
}

// Batch 0 trains group 0; group 1 is dropped; batch s trains group s + 1 from there on.
TEST_F(SchedulerTest, TreesOlderThanKeepStepsAreDeletedUnlessAKeptCheckpointReplaysThem) {
  options_.keep_steps = 3;
  Start();
  const auto groups = [&] {
    std::set<int64_t> groups;
    for (const auto& [key, episode] : pool_.state().episodes) groups.insert(std::get<1>(key));
    return std::vector<int64_t>(groups.begin(), groups.end());
  };
  const auto train = [&](int64_t step) {
    const int64_t group = RunGroup({0, 1});
    ASSERT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(step))), ElementsAre(group));
    ASSERT_TRUE(scheduler_->MarkVersionLive(step + 1).ok());
  };
  const auto checkpoint = [&](int64_t step) {
    v1::CheckpointRequest request;
    request.set_step(step);
    ASSERT_TRUE(scheduler_->MarkCheckpoint(request).ok());
    ASSERT_TRUE(scheduler_->Tick().ok());
  };
  train(0);
  RunGroup({1, 1});  // group 1: dropped
  for (int64_t step = 1; step < 4; ++step) train(step);
  checkpoint(4);
  EXPECT_THAT(groups(), ElementsAre(1, 2, 3, 4));  // 4 - 3 = 1: batch 0 alone
  train(4);
  checkpoint(5);
  EXPECT_THAT(groups(), ElementsAre(3, 4, 5));
  for (int64_t step = 5; step < 9; ++step) train(step);
  checkpoint(9);
  EXPECT_THAT(groups(), ElementsAre(6, 7, 8, 9));  // checkpoint 5 is kept: it may replay batch 5, group 6
  scheduler_ = MustRecover(options_, pool_, clock_, 5);
  ASSERT_TRUE(scheduler_->MarkVersionLive(5).ok());
  for (int64_t step = 5; step < 9; ++step) {
    EXPECT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(step))), ElementsAre(step + 1));
  }
  ASSERT_TRUE(scheduler_->Tick().ok());
  EXPECT_THAT(groups(), ElementsAre(6, 7, 8, 9));
}

TEST_F(SchedulerTest, WithoutKeepStepsAllTreesStay) {
  Start();
  for (int64_t step = 0; step < 5; ++step) {
    RunGroup({0, 1});
    ASSERT_TRUE(scheduler_->NextBatch(Batch(step)).ok());
    v1::CheckpointRequest request;
    request.set_step(step + 1);
    ASSERT_TRUE(scheduler_->MarkVersionLive(step + 1).ok());
    ASSERT_TRUE(scheduler_->MarkCheckpoint(request).ok());
    ASSERT_TRUE(scheduler_->Tick().ok());
  }
  EXPECT_EQ(pool_.state().episodes.size(), 10u);
}

// ---- A journal that fails

TEST_F(SchedulerTest, AFailedWriteChangesNothing) {
  Start();
  pool_.FailNextAppend(FakePool::Fault::kLost);
  EXPECT_EQ(AdmitCode(), StatusCode::kUnavailable);
  EXPECT_EQ(MustAdmit().ref().group_id(), 0);
  End(MustAdmit(), v1::EPISODE_FINISHED, 1);
  v1::Ticket first;
  End(first, v1::EPISODE_FINISHED, 0);
  pool_.FailNextAppend(FakePool::Fault::kLost);
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(0))), ElementsAre(0));
}

TEST_F(SchedulerTest, AWriteWhoseAnswerWasLostIsFoundAndNotRepeated) {
  Start();
  pool_.FailNextAppend(FakePool::Fault::kWrittenButAnswerLost);
  EXPECT_EQ(AdmitCode(), StatusCode::kDeadlineExceeded);
  RunGroup({0, 1});  // group 0, which was admitted
  pool_.FailNextAppend(FakePool::Fault::kWrittenButAnswerLost);
  EXPECT_EQ(scheduler_->NextBatch(Batch(0)).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(0))), ElementsAre(0));
  int admitted = 0, batches = 0;
  for (const auto& record : pool_.state().journal) {
    admitted += record.has_admitted();
    batches += record.has_batch();
  }
  EXPECT_EQ(admitted, 1);
  EXPECT_EQ(batches, 1);
}

TEST_F(SchedulerTest, AnEndIsNotLostWhenItsDropCannotBeWritten) {
  Start();
  const v1::Ticket a = MustAdmit(), b = MustAdmit();
  End(a, v1::EPISODE_FINISHED, 1);
  pool_.FailNextAppend(FakePool::Fault::kLost);
  EXPECT_FALSE(scheduler_->ReportEpisodeEnd(EndOf(b, v1::EPISODE_FINISHED, 1)).ok());
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(b, v1::EPISODE_FINISHED, 1)).ok());  // the gateway tells it again
  EXPECT_EQ(Stats().dropped(), 1);
}

TEST_F(SchedulerTest, NothingIsWrittenWhileARecordIsInDoubt) {
  Start();
  pool_.FailNextAppend(FakePool::Fault::kWrittenButAnswerLost);
  EXPECT_FALSE(scheduler_->Admit({}).ok());
  pool_.FailAppends(true);
  const auto size = pool_.state().journal.size();
  EXPECT_EQ(AdmitCode(), StatusCode::kUnavailable);
  EXPECT_EQ(pool_.state().journal.size(), size);
  pool_.FailAppends(false);
  EXPECT_EQ(MustAdmit().ref().group_id(), 0);
}

// The pool's disk stalls: the append fails for the scheduler, and the pool writes it later.
TEST_F(SchedulerTest, AWriteThatLandsLateIsInTheJournalOnce) {
  for (const bool before_the_next_call : {true, false}) {
    Start();
    const int64_t step = scheduler_->Status()->next_step();
    ASSERT_TRUE(scheduler_->MarkVersionLive(step).ok());
    const int64_t group = RunGroup({0, 1});
    pool_.FailNextAppend(FakePool::Fault::kLate);
    EXPECT_EQ(scheduler_->NextBatch(Batch(step)).status().code(), StatusCode::kDeadlineExceeded);
    if (before_the_next_call) {
      EXPECT_TRUE(pool_.WriteLate().ok());
    }
    MustAdmit();  // writes something else
    const auto size = pool_.state().journal.size();
    EXPECT_TRUE(pool_.WriteLate().ok());  // known
    EXPECT_EQ(pool_.state().journal.size(), size);
    EXPECT_THAT(GroupsOf(*scheduler_->NextBatch(Batch(step))), ElementsAre(group));
    EXPECT_TRUE(scheduler_->MarkVersionLive(step + 1).ok());
    EXPECT_NE(MustRecover(options_, pool_, clock_, std::nullopt), nullptr);
  }
}

TEST_F(SchedulerTest, ARecordThatThePoolRejectsForGoodIsForgotten) {
  Start();
  pool_.FailNextAppend(FakePool::Fault::kRejected);
  EXPECT_EQ(AdmitCode(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MustAdmit().ref().group_id(), 0);
}

TEST_F(SchedulerTest, ASecondWriterOfTheJournalStopsTheScheduler) {
  Start();
  v1::AppendJournalRequest foreign;
  foreign.add_records()->mutable_live()->set_version(0);
  ASSERT_TRUE(pool_.AppendJournal(foreign).ok());
  EXPECT_EQ(AdmitCode(), StatusCode::kAborted);
  EXPECT_EQ(AdmitCode(), StatusCode::kAborted);
}

// ---- Start

TEST_F(SchedulerTest, RejectsToStartWithBadOptionsTasksOrCheckpoint) {
  SchedulerOptions bad = options_;
  bad.group_size = 0;
  EXPECT_EQ(Scheduler::Recover(bad, MakeTasks(1), pool_, clock_, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Scheduler::Recover(options_, {}, pool_, clock_, 0).status().code(), StatusCode::kInvalidArgument);
  v1::AppendJournalRequest request;
  request.add_records()->mutable_admitted()->set_group_id(0);
  ASSERT_TRUE(pool_.AppendJournal(request).ok());
  EXPECT_EQ(Scheduler::Recover(options_, MakeTasks(1), pool_, clock_, 3).status().code(),
            StatusCode::kFailedPrecondition);  // a checkpoint of another run
}

TEST_F(SchedulerTest, AJournalThatContradictsItselfIsRejected) {
  v1::AppendJournalRequest request;
  request.add_records()->mutable_admitted()->set_group_id(0);
  request.add_records()->mutable_batch()->set_step(0);
  request.mutable_records(1)->mutable_batch()->add_group_ids(1);
  ASSERT_TRUE(pool_.AppendJournal(request).ok());
  const absl::Status status = Scheduler::Recover(options_, MakeTasks(1), pool_, clock_, 0).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("journal record 1"));
}

// Each record contradicts the journal before it: two admissions, the reward of group 0 and its batch.
TEST_F(SchedulerTest, EveryCorruptRecordIsANamedError) {
  const auto batch = [](int64_t step, const std::vector<int64_t>& groups) {
    v1::JournalRecord record;
    record.mutable_batch()->set_step(step);
    record.mutable_batch()->mutable_group_ids()->Add(groups.begin(), groups.end());
    return record;
  };
  std::vector<v1::JournalRecord> corrupt{v1::JournalRecord(), batch(0, {1}), batch(2, {1}), batch(1, {0}),
                                         batch(1, {1, 1}),    batch(1, {7}), batch(1, {-1})};
  const auto next = [&]() -> v1::JournalRecord& { return corrupt.emplace_back(); };
  next().mutable_admitted()->set_group_id(1);
  next().mutable_admitted()->set_group_id(3);
  next().mutable_admitted()->set_group_id(2);
  corrupt.back().mutable_admitted()->set_group_size(1 << 30);
  for (const int64_t group : {-1, 0, 2}) next().mutable_closed()->set_group_id(group);
  for (const int64_t group : {-1, 0, 2}) next().mutable_rewarded()->set_group_id(group);
  for (const int64_t version : {-1, 2}) next().mutable_live()->set_version(version);
  for (const int64_t step : {-1, 2}) next().mutable_checkpoint()->set_step(step);
  for (const v1::JournalRecord& record : corrupt) {
    SCOPED_TRACE(record.ShortDebugString());
    FakePool pool;
    v1::AppendJournalRequest request;
    for (const int64_t group : {0, 1}) request.add_records()->mutable_admitted()->set_group_id(group);
    request.add_records()->mutable_rewarded()->set_group_id(0);
    *request.add_records() = batch(0, {0});
    *request.add_records() = record;
    ASSERT_TRUE(pool.AppendJournal(request).ok());
    const absl::Status status = Scheduler::Recover(options_, MakeTasks(1), pool, clock_, 0).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("journal record 4: "));
  }
}

TEST(SchedulerOptionsTest, ErrorsNameTheFieldAndItsRange) {
  const absl::Status status = SchedulerOptions{.max_attempts = 0}.Validate();
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_attempts is 0: it must be in [1, 1048576]"));
  EXPECT_TRUE(SchedulerOptions().Validate().ok());
  EXPECT_FALSE((SchedulerOptions{.group_deadline_seconds = std::nan("")}).Validate().ok());
}

TEST_F(SchedulerTest, AnEndReportedAgainAfterItsGroupFinishedChangesNothing) {
  Start();
  const v1::Ticket a = MustAdmit(), b = MustAdmit();
  End(a, v1::EPISODE_FINISHED, 0);
  End(b, v1::EPISODE_FINISHED, 1);  // the group is finished, and in no batch yet
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(b, v1::EPISODE_FINISHED, 1)).ok());
  scheduler_ = MustRecover(options_, pool_, clock_, std::nullopt);  // the answer to b's end was lost with it
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(b, v1::EPISODE_FINISHED, 1)).ok());
  ASSERT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(a, v1::EPISODE_FAILED)).ok());
  const auto batch = scheduler_->NextBatch(Batch(0));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(GroupsOf(*batch), ElementsAre(a.ref().group_id()));
}

}  // namespace
}  // namespace ingot::scheduler
