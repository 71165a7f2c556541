// Which versions are evaluated, and how evaluations survive restarts of scheduler and trainer.
#include "app/training/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "app/unused_scheduler.h"
#include "base/mutex.h"

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A scheduler that forgets its running evaluations when it is restarted.
class FakeScheduler final : public UnusedScheduler {
 public:
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) override {
    if (!trouble.ok()) return trouble;
    if (!rejection.ok()) return rejection;
    if (std::ssize(running) >= most) return absl::ResourceExhaustedError("as many as run at a time are not done yet");
    starts.push_back(request.version());
    for (const v1::Task& task : request.tasks()) started.push_back(task.eval_set() + "/" + task.task_id());
    running.insert(request.version());
    return v1::StartEvalResponse();
  }
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) override {
    if (!trouble.ok()) return trouble;
    v1::EvalStatusResponse status;
    status.set_done(done.contains(version));
    if (!done.contains(version) && !running.contains(version)) return absl::NotFoundError("start it");
    return status;
  }
  void Finish(int64_t version) {
    running.erase(version);
    done.insert(version);
  }

  absl::Status trouble;
  absl::Status rejection;  // the answer to StartEval
  int most = 4;
  std::vector<int64_t> starts;
  std::vector<std::string> started;  // SET/ID of the tasks
  std::set<int64_t> running, done;
};

// An engine that retains versions of an earlier trainer.
class HoldingEngine final : public weights::Sink {
 public:
  explicit HoldingEngine(std::set<int64_t> held) : held_(std::move(held)) {}
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta&) override {
    return absl::UnimplementedError("not asked for here");
  }
  absl::Status Release(int64_t version) override {
    base::MutexLock lock(mu_);
    held_.erase(version);
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> LiveVersion() override { return 60; }
  absl::StatusOr<std::vector<weights::HeldVersion>> HeldVersions() override {
    std::vector<weights::HeldVersion> all;
    for (const int64_t version : held()) all.push_back({version, 0});
    return all;
  }
  std::set<int64_t> held() {
    base::MutexLock lock(mu_);
    return held_;
  }

 private:
  base::Mutex mu_;
  std::set<int64_t> held_;
};

class EvaluationsTest : public ::testing::Test {
 protected:
  EvaluationsTest() {
    EvalOptions options;
    options.every_versions = 10;
    Make(options);
  }
  // 100 steps, at most two evaluations at a time.
  void Make(EvalOptions options) {
    options.tasks = absl::StrCat(testing::TempDir(), "/held_out_", ::getpid(), ".jsonl");
    std::ofstream(options.tasks) << "{\"task_id\": \"a\", \"prompt\": \"?\"}\n";
    auto created = Evaluations::Create(options, 100, 2, scheduler, publisher);
    EXPECT_TRUE(created.ok()) << created.status();
    evaluations.emplace(*std::move(created));
    std::remove(options.tasks.c_str());
  }
  absl::Status Poll() { return evaluations->Poll(report); }

  FakeScheduler scheduler;
  weights::Publisher publisher{{}};
  std::optional<Evaluations> evaluations;
  std::vector<int64_t> reported;
  Evaluations::Report report = [this](int64_t version, const v1::EvalStatusResponse&) {
    reported.push_back(version);
    return absl::OkStatus();
  };
  std::function<void()> on_sleep = [] {};
  std::atomic<bool> stop{false};
  base::ManualClock clock;
  RetryPolicy retry{.stop = &stop, .clock = &clock, .sleep = [this](std::chrono::milliseconds time) {
                      clock.Advance(time);
                      on_sleep();
                    }};
};

TEST_F(EvaluationsTest, RestartsAfterTheSchedulerForgotIt) {
  ASSERT_TRUE(evaluations->Start(10).ok());
  scheduler.running.clear();
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 10));
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 10));
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(10));
}

EvalOptions AtStart() {
  EvalOptions options;
  options.at_start = true;
  return options;
}

TEST_F(EvaluationsTest, AtStartAddsTheWeightsBeforeTheFirstStepToTheLastOnes) {
  Make(AtStart());
  EXPECT_TRUE(evaluations->Retains(0));
  EXPECT_FALSE(evaluations->Retains(10));
  ASSERT_TRUE(evaluations->OnLive(0, true).ok());
  ASSERT_TRUE(evaluations->OnLive(10, false).ok());
  ASSERT_TRUE(evaluations->OnLive(100, false).ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(0, 100));

  Make(EvalOptions());
  EXPECT_FALSE(evaluations->Retains(0));
  ASSERT_TRUE(evaluations->OnLive(0, false).ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(0, 100));
}

TEST_F(EvaluationsTest, StartsTellsWhichVersionsOnLiveWouldStart) {
  EXPECT_TRUE(evaluations->Starts(10, true));
  EXPECT_FALSE(evaluations->Starts(10, false)) << "no engine retains it";
  EXPECT_FALSE(evaluations->Starts(11, true)) << "it is not due";
  EXPECT_TRUE(evaluations->Starts(100, false)) << "the last version stays live";
  ASSERT_TRUE(evaluations->OnLive(10, true).ok());
  ASSERT_TRUE(evaluations->OnLive(20, true).ok());
  EXPECT_THAT(evaluations->running(), ElementsAre(10, 20));
  EXPECT_FALSE(evaluations->Starts(30, true)) << "as many as can run at a time do";
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_TRUE(evaluations->Starts(30, true));
  EXPECT_FALSE(evaluations->Starts(10, true)) << "it is reported";
}

TEST(Evaluations, AskForTheTasksOfAllSetsInOneEvaluation) {
  EvalOptions options;
  for (const char* name : {"two", "one"}) {
    options.sets[name] = absl::StrCat(testing::TempDir(), "/set_", name, ::getpid(), ".jsonl");
    std::ofstream(options.sets[name]) << "{\"task_id\": \"a\"}\n";
  }
  FakeScheduler scheduler;
  weights::Publisher publisher{{}};
  auto evaluations = Evaluations::Create(options, 100, 2, scheduler, publisher);
  ASSERT_TRUE(evaluations.ok()) << evaluations.status();
  for (const auto& [name, path] : options.sets) std::remove(path.c_str());
  ASSERT_TRUE(evaluations->Start(10).ok());
  EXPECT_THAT(scheduler.started, ElementsAre("one/a", "two/a"));
}

TEST_F(EvaluationsTest, AResumedRunReportsTheEvaluationAtItsStart) {
  Make(AtStart());
  scheduler.Finish(0);
  ASSERT_TRUE(evaluations->Resume(20, {}, retry).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(0));

  reported.clear();
  Make(AtStart());
  ASSERT_TRUE(evaluations->Resume(20, {0}, retry).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre());
}

TEST_F(EvaluationsTest, IsRequestedAgainWhileTheSchedulerIsAwayOrBusy) {
  for (const absl::Status& trouble :
       {absl::UnavailableError("away"), absl::DeadlineExceededError("slow"), absl::ResourceExhaustedError("full")}) {
    reported.clear();
    scheduler = FakeScheduler();
    scheduler.trouble = trouble;
    ASSERT_TRUE(evaluations->Start(10).ok());
    ASSERT_TRUE(Poll().ok());
    scheduler.trouble = absl::OkStatus();
    ASSERT_TRUE(Poll().ok());
    EXPECT_THAT(scheduler.starts, ElementsAre(10));
    scheduler.Finish(10);
    ASSERT_TRUE(Poll().ok());
    EXPECT_THAT(reported, ElementsAre(10));
  }
}

TEST_F(EvaluationsTest, WaitsForRoomAtTheScheduler) {
  scheduler.most = 1;
  ASSERT_TRUE(evaluations->Start(10).ok());
  ASSERT_TRUE(evaluations->Start(20).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10));
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 20));
}

TEST_F(EvaluationsTest, IsLeftOutWhereTooManyRun) {
  for (const int64_t version : {10, 15, 20, 30}) {
    EXPECT_EQ(evaluations->Retains(version), version == 10 || version == 20) << version;
    ASSERT_TRUE(evaluations->OnLive(version, /*retained=*/true).ok());
  }
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 20));
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_TRUE(evaluations->Retains(40));
  ASSERT_TRUE(evaluations->OnLive(40, true).ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 20, 40));
  // The last version's evaluation is never left out, and the engines serve that version to the end.
  EXPECT_FALSE(evaluations->Retains(100));
  ASSERT_TRUE(evaluations->OnLive(100, false).ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 20, 40, 100));
}

TEST_F(EvaluationsTest, IsLeftOutWhereAnEngineDoesNotRetainTheVersion) {
  ASSERT_TRUE(evaluations->OnLive(10, /*retained=*/false).ok());
  EXPECT_TRUE(scheduler.starts.empty());
}

TEST_F(EvaluationsTest, AResumedRunContinuesHeldVersionsAndReleasesTheRest) {
  const auto one = std::make_shared<HoldingEngine>(std::set<int64_t>{3, 10, 20, 30, 50, 60});
  const auto other = std::make_shared<HoldingEngine>(std::set<int64_t>{3, 10, 30, 50, 60});
  ASSERT_TRUE(publisher.AddEngine("one", one).ok());
  ASSERT_TRUE(publisher.AddEngine("other", other).ok());
  evaluations->RetainAfterwards([](int64_t version) { return version == 3; });
  scheduler.running = {10, 20};
  scheduler.done = {30};
  ASSERT_TRUE(evaluations->Resume(/*first=*/50, {}, retry).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(30));
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(30, 10));
  EXPECT_TRUE(scheduler.starts.empty());
  // 3 is pinned by a model, 50 is published again, 20 is held by one engine alone, and 60 will be made again.
  while (one->held() != std::set<int64_t>{3, 50}) std::this_thread::yield();
  while (other->held() != std::set<int64_t>{3, 50}) std::this_thread::yield();
}

TEST_F(EvaluationsTest, AResumedRunReportsEndedEvaluationsMissingInItsRecord) {
  // 10 and 50 are in the record; 30 and 40 ended without a record; 20 did not end, and no engine holds it.
  scheduler.done = {10, 30, 40, 50};
  ASSERT_TRUE(evaluations->Resume(/*first=*/50, {10, 50}, retry).ok());
  EXPECT_FALSE(evaluations->Retains(50));
  ASSERT_TRUE(evaluations->OnLive(50, false).ok());
  ASSERT_TRUE(Poll().ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(30, 40));
  EXPECT_TRUE(scheduler.starts.empty());
}

TEST_F(EvaluationsTest, AResumedRunAsksUntilTheSchedulerAnswers) {
  scheduler.done = {0, 10};
  scheduler.trouble = absl::UnavailableError("it is being started again");
  int slept = 0;
  on_sleep = [&] {
    if (++slept == 3) scheduler.trouble = absl::OkStatus();
  };
  ASSERT_TRUE(evaluations->Resume(/*first=*/20, {}, retry).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(0, 10));
}

TEST_F(EvaluationsTest, AFailedReportIsRepeated) {
  ASSERT_TRUE(evaluations->Start(10).ok());
  scheduler.Finish(10);
  const auto fails = [](int64_t, const v1::EvalStatusResponse&) { return absl::CancelledError("stopped"); };
  EXPECT_EQ(evaluations->Poll(fails).code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(10));
}

TEST_F(EvaluationsTest, ARejectedVersionIsLeftOut) {
  for (const absl::Status& rejection :
       {absl::InvalidArgumentError("above max_eval_episodes"), absl::AlreadyExistsError("another one runs")}) {
    scheduler.trouble = rejection;
    ASSERT_TRUE(evaluations->OnLive(10, /*retained=*/true).ok());
    // It is not waited for, even if the refusal comes after a delay.
    scheduler.trouble = absl::UnavailableError("away");
    ASSERT_TRUE(evaluations->OnLive(20, /*retained=*/true).ok());
    scheduler.trouble = absl::OkStatus();
    scheduler.rejection = rejection;
    ASSERT_TRUE(evaluations->Finish(report, retry, nullptr, [](const std::string&) {}).ok());
    scheduler.rejection = absl::OkStatus();
  }
  EXPECT_TRUE(reported.empty());
}

TEST_F(EvaluationsTest, FinishEndsWithTheEnginesFault) {
  ASSERT_TRUE(evaluations->Start(100).ok());
  absl::Status fault;
  int slept = 0;
  on_sleep = [&] {
    if (++slept == 3) fault = absl::FailedPreconditionError("the server exited");
    ASSERT_LT(slept, 1000);
  };
  const absl::Status end = evaluations->Finish(report, retry, [&] { return fault; }, [](const std::string&) {});
  EXPECT_TRUE(absl::IsFailedPrecondition(end));
  EXPECT_THAT(std::string(end.message()), HasSubstr("the server exited"));
  EXPECT_EQ(slept, 3);
}

TEST_F(EvaluationsTest, FinishDescribesItsWait) {
  ASSERT_TRUE(evaluations->Start(100).ok());
  int slept = 0;
  on_sleep = [&] {
    if (++slept * 20 == 45'000) scheduler.Finish(100);
  };
  std::vector<std::string> lines;
  int watched = 0;
  ASSERT_TRUE(evaluations
                  ->Finish(
                      report, retry, nullptr, [&](const std::string& text) { lines.push_back(text); },
                      [&](const v1::EvalStatusResponse&) { ++watched; })
                  .ok());
  EXPECT_EQ(watched, 89);       // twice a second, up to its end
  ASSERT_EQ(lines.size(), 2u);  // every 20 s
  EXPECT_THAT(lines[1], HasSubstr("waiting for the evaluation of version 100 for 40 s"));

  v1::EvalStatusResponse so_far;
  so_far.set_total(64);
  EXPECT_THAT(DescribeEvaluation(7, 20, so_far), HasSubstr("0 of 64 episodes are done; external agents"));
  so_far.set_finished(10);
  so_far.set_failed(2);
  EXPECT_EQ(DescribeEvaluation(7, 20, so_far),
            "waiting for the evaluation of version 7 for 20 s: 12 of 64 episodes are done, 2 of them failed");
}

TEST_F(EvaluationsTest, APermanentErrorIsReturned) {
  scheduler.trouble = absl::AbortedError("another scheduler is writing this pool's journal");
  EXPECT_EQ(evaluations->Start(10).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Poll().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace ingot::app
