// Which versions are evaluated, and what becomes of an evaluation while others come and go.
#include "app/evaluation.h"

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

// A scheduler that forgets what runs when it is started again.
class FakeScheduler final : public UnusedScheduler {
 public:
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) override {
    if (!trouble.ok()) return trouble;
    if (std::ssize(running) >= most) return absl::ResourceExhaustedError("as many as run at a time are not done yet");
    starts.push_back(request.version());
    running.insert(request.version());
    return v1::StartEvalResponse();
  }
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) override {
    if (!trouble.ok()) return trouble;
    v1::EvalStatusResponse status;
    status.set_done(done.contains(version));
    if (!done.contains(version) && !running.contains(version)) return absl::NotFoundError("start it (again)");
    return status;
  }
  void Finish(int64_t version) {
    running.erase(version);
    done.insert(version);
  }

  absl::Status trouble;
  int most = 4;
  std::vector<int64_t> starts;
  std::set<int64_t> running, done;
};

// An engine that a trainer before this one had retain versions.
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
  absl::StatusOr<std::vector<int64_t>> HeldVersions() override {
    base::MutexLock lock(mu_);
    return std::vector<int64_t>(held_.begin(), held_.end());
  }

 private:
  base::Mutex mu_;
  std::set<int64_t> held_;
};

class EvaluationsTest : public ::testing::Test {
 protected:
  EvaluationsTest() {
    const std::string path = absl::StrCat(testing::TempDir(), "/held_out_", ::getpid(), ".jsonl");
    std::ofstream(path) << "{\"task_id\": \"a\", \"prompt\": \"?\"}\n";
    EvalOptions options;
    options.tasks = path;
    options.every_versions = 10;
    auto created = Evaluations::Create(options, 100, 2, scheduler, publisher);
    EXPECT_TRUE(created.ok()) << created.status();
    evaluations.emplace(*std::move(created));
    std::remove(path.c_str());
  }
  absl::Status Poll() {
    return evaluations->Poll([this](int64_t version, const v1::EvalStatusResponse&) { reported.push_back(version); });
  }

  FakeScheduler scheduler;
  weights::Publisher publisher{{}};
  std::optional<Evaluations> evaluations;
  std::vector<int64_t> reported;
};

TEST_F(EvaluationsTest, IsStartedAgainByASchedulerThatForgotIt) {
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

TEST_F(EvaluationsTest, IsAskedForAgainWhileTheSchedulerIsAwayOrBusy) {
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

TEST_F(EvaluationsTest, WaitsUntilFewerRunThanTheSchedulerTakes) {
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
  // The last version's is never left out, and nothing replaces what the engines serve by then.
  EXPECT_FALSE(evaluations->Retains(100));
  ASSERT_TRUE(evaluations->OnLive(100, false).ok());
  EXPECT_THAT(scheduler.starts, ElementsAre(10, 20, 40, 100));
}

TEST_F(EvaluationsTest, IsLeftOutWhereAnEngineDoesNotRetainTheVersion) {
  ASSERT_TRUE(evaluations->OnLive(10, /*retained=*/false).ok());
  EXPECT_TRUE(scheduler.starts.empty());
}

TEST_F(EvaluationsTest, AResumedRunGoesOnWithThoseThatTheEnginesHoldAndFreesTheRest) {
  const auto one = std::make_shared<HoldingEngine>(std::set<int64_t>{3, 10, 20, 30, 50, 60});
  const auto other = std::make_shared<HoldingEngine>(std::set<int64_t>{3, 10, 30, 50, 60});
  publisher.AddEngine("one", one);
  publisher.AddEngine("other", other);
  evaluations->Keep([](int64_t version) { return version == 3; });
  scheduler.running = {10, 20};
  scheduler.done = {30};
  evaluations->Resume(/*first=*/50);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(30));
  scheduler.Finish(10);
  ASSERT_TRUE(Poll().ok());
  EXPECT_THAT(reported, ElementsAre(30, 10));
  EXPECT_TRUE(scheduler.starts.empty());
  // A model is pinned to 3, and 50 is published again. 20 is held by one alone, and 60 comes to be made again.
  while (*one->HeldVersions() != std::vector<int64_t>{3, 50}) std::this_thread::yield();
  while (*other->HeldVersions() != std::vector<int64_t>{3, 50}) std::this_thread::yield();
}

TEST_F(EvaluationsTest, WhatDoesNotPassByItselfIsAnError) {
  scheduler.trouble = absl::AbortedError("another scheduler writes the journal");
  EXPECT_EQ(evaluations->Start(10).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Poll().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace ingot::app
