// How the training thread waits for other roles that are away.
#include "app/run/persist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "app/unused_scheduler.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// An engine that is unreachable until it is set.
class FakeEngine final : public weights::Sink {
 public:
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta& delta) override {
    base::MutexLock lock(mu_);
    ++updates_;
    if (away_) return absl::UnavailableError("it is being started again");
    if (rejects_) return absl::InvalidArgumentError("another model's weights");
    INGOT_ASSIGN_OR_RETURN(held_, weights::Apply(held_, delta));
    v1::UpdateWeightsResponse response;
    response.set_version(held_->version());
    return response;
  }
  absl::Status Release(int64_t) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> LiveVersion() override {
    base::MutexLock lock(mu_);
    if (away_) return absl::UnavailableError("it is being started again");
    return held_ == nullptr ? -1 : held_->version();
  }
  absl::StatusOr<std::vector<weights::HeldVersion>> HeldVersions() override {
    return std::vector<weights::HeldVersion>();
  }

  void Die() {
    base::MutexLock lock(mu_);
    away_ = true;
    held_ = nullptr;
  }
  void ComeBack() {
    base::MutexLock lock(mu_);
    away_ = false;
  }
  void Reject() {
    base::MutexLock lock(mu_);
    rejects_ = true;
  }
  int updates() {
    base::MutexLock lock(mu_);
    return updates_;
  }

 private:
  base::Mutex mu_;
  bool away_ = false;
  bool rejects_ = false;
  int updates_ = 0;
  std::shared_ptr<const weights::Snapshot> held_;
};

// A scheduler that answers NextBatch with `answers`, then with a batch.
class FakeScheduler final : public UnusedScheduler {
 public:
  absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest& request) override {
    if (on_ask) on_ask();
    if (asked++ < answers.size()) return answers[asked - 1];
    v1::NextBatchResponse response;
    response.mutable_batch()->set_step(request.step());
    return response;
  }
  std::vector<absl::Status> answers;
  std::function<void()> on_ask;
  size_t asked = 0;
};

std::shared_ptr<const weights::Snapshot> Version(int64_t version) {
  std::vector<char> bytes(64);
  std::memcpy(bytes.data(), &version, sizeof(version));
  const weights::TensorView view{"a", "F32", {16}, std::as_bytes(std::span<const char>(bytes))};
  return weights::Snapshot::Copy(version, {view}).value();
}

class PersistTest : public ::testing::Test {
 protected:
  // Each sleep moves the clock and calls `on_sleep` with the number of sleeps so far.
  std::function<void(int)> on_sleep = [](int) {};
  int sleeps = 0;
  std::atomic<bool> stop{false};
  base::ManualClock clock;
  RetryPolicy retry{.stop = &stop, .clock = &clock, .sleep = [this](std::chrono::milliseconds time) {
                      clock.Advance(time);
                      on_sleep(++sleeps);
                    }};
};

TEST_F(PersistTest, RepeatsOnTransientErrors) {
  // CANCELLED too: a peer that is being stopped answers it, and is then restarted.
  for (const absl::StatusCode code : {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
                                      absl::StatusCode::kResourceExhausted, absl::StatusCode::kCancelled}) {
    int attempts = 0;
    const absl::Status status =
        Persist(retry, "a call", [&] { return ++attempts <= 100 ? absl::Status(code, "not now") : absl::OkStatus(); });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(attempts, 101);
  }
}

TEST_F(PersistTest, IsAWaitOfTheProcessFromTheFirstFailureOn) {
  const auto waits = [](base::WaitKind kind) { return base::Waits::OfProcess().Longer(std::chrono::seconds(0), kind); };
  std::vector<std::vector<std::string>> seen;
  on_sleep = [&](int) { seen.push_back(waits(base::WaitKind::kFault)); };
  int attempts = 0;
  const absl::Status status = Persist(retry, "writing a", [&]() -> absl::Status {
    seen.push_back(waits(base::WaitKind::kFault));
    if (++attempts == 1) return absl::ResourceExhaustedError("no space");
    return attempts == 2 ? absl::UnavailableError("no disk") : absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  using Causes = std::vector<std::string>;
  EXPECT_THAT(seen, testing::ElementsAre(Causes(), Causes{"writing a (no space)"}, Causes{"writing a (no space)"},
                                         Causes{"writing a (no disk)"}, Causes{"writing a (no disk)"}));
  EXPECT_EQ(waits(base::WaitKind::kFault), Causes());
  FakeScheduler scheduler;
  scheduler.on_ask = [&] { EXPECT_EQ(waits(base::WaitKind::kWork), Causes{"batch 3"}); };
  EXPECT_TRUE(WaitForBatch(scheduler, 3, retry).ok());
}

TEST_F(PersistTest, ReturnsPermanentErrorsAtOnce) {
  int attempts = 0;
  const absl::Status status = Persist(retry, "a call", [&] {
    ++attempts;
    return absl::DataLossError("the journal is damaged");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(attempts, 1);
}

TEST_F(PersistTest, StopsWithTheRun) {
  on_sleep = [this](int slept) { stop = slept == 5; };
  const absl::Status status = Persist(retry, "a call", [] { return absl::UnavailableError("gone"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sleeps, 5);
}

TEST_F(PersistTest, TriesOnceInARunThatIsStopped) {
  stop = true;
  int attempts = 0;
  EXPECT_TRUE(Persist(retry, "a write", [&] { return ++attempts, absl::OkStatus(); }).ok());
  const absl::Status status = Persist(retry, "a write", [&] { return ++attempts, absl::UnavailableError("full"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(sleeps, 0);
}

TEST_F(PersistTest, AStoppingSchedulerIsWaitedForUntilTheOwnStop) {
  FakeScheduler scheduler;
  scheduler.answers.assign(3, absl::CancelledError("the scheduler is shut down"));
  EXPECT_TRUE(WaitForBatch(scheduler, 7, retry).ok());
  EXPECT_EQ(sleeps, 3);
  stop = true;
  EXPECT_EQ(WaitForBatch(scheduler, 8, retry).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(scheduler.asked, 4u);
}

TEST_F(PersistTest, AVersionIsPublishedOnceTheOnlyEngineIsBack) {
  auto engine = std::make_shared<FakeEngine>();
  weights::Publisher publisher({.deadline = 30s, .codec = {}}, clock);
  ASSERT_TRUE(publisher.AddEngine("engine", engine).ok());
  ASSERT_TRUE(PublishUntilLive(publisher, Version(0), false, retry).ok());
  engine->Die();
  on_sleep = [&](int slept) {
    if (slept == 90) engine->ComeBack();
  };
  const auto stats = PublishUntilLive(publisher, Version(1), false, retry);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(sleeps, 90);
  EXPECT_EQ(stats->version, 1);
  EXPECT_EQ(stats->leases_lost, 1);
  EXPECT_EQ(publisher.leased_engines(), 1);
  EXPECT_EQ(*engine->LiveVersion(), 1);
}

TEST_F(PersistTest, ARunThatIsStoppedDoesNotWaitForEnginesAnyMore) {
  auto engine = std::make_shared<FakeEngine>();
  weights::Publisher publisher({.deadline = 30s, .codec = {}}, clock);
  ASSERT_TRUE(publisher.AddEngine("engine", engine).ok());
  stop = true;
  EXPECT_EQ(PublishUntilLive(publisher, Version(0), false, retry).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine->updates(), 0);
}

TEST_F(PersistTest, AnEngineThatCanNeverServeEndsTheRun) {
  auto engine = std::make_shared<FakeEngine>();
  weights::Publisher publisher({.deadline = 30s, .codec = {}}, clock);
  ASSERT_TRUE(publisher.AddEngine("engine", engine).ok());
  engine->Die();
  const auto fault = [&] { return sleeps < 5 ? absl::OkStatus() : absl::InternalError("the device failed"); };
  const auto stats = PublishUntilLive(publisher, Version(0), false, retry, fault);
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(stats.status().message()), HasSubstr("the device failed"));
  EXPECT_EQ(sleeps, 5);
}

TEST_F(PersistTest, AVersionThatTheEngineRejectsEndsTheRun) {
  auto engine = std::make_shared<FakeEngine>();
  engine->Reject();
  weights::Publisher publisher({.deadline = 30s, .codec = {}}, clock);
  ASSERT_TRUE(publisher.AddEngine("engine", engine).ok());
  const auto stats = PublishUntilLive(publisher, Version(0), false, retry);
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(stats.status().message()), HasSubstr("another model's weights"));
  EXPECT_EQ(engine->updates(), 1);
}

TEST_F(PersistTest, ABatchIsWaitedForWhileThePoolsDiskIsFullOrThePoolIsAway) {
  FakeScheduler scheduler;
  scheduler.answers.assign(3, absl::DeadlineExceededError("batch 7 has 1 of 2 groups"));
  scheduler.answers.resize(103, absl::ResourceExhaustedError("the disk of the pool is full"));
  scheduler.answers.resize(105, absl::UnavailableError("the pool cannot be reached"));
  scheduler.answers.resize(106, absl::DeadlineExceededError("batch 7 has 1 of 2 groups"));
  int waited = 0;
  const auto batch = WaitForBatch(scheduler, 7, retry, [&waited] {
    ++waited;
    return absl::OkStatus();
  });
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->batch().step(), 7);
  EXPECT_EQ(scheduler.asked, 107u);
  EXPECT_EQ(waited, 4);    // once per part of the wait without a batch
  EXPECT_EQ(sleeps, 102);  // none while the scheduler itself waits for the batch
}

TEST_F(PersistTest, AWaitForABatchEndsWithAFaultOfTheEngine) {
  FakeScheduler scheduler;
  scheduler.answers.assign(3, absl::DeadlineExceededError("batch 7 has 1 of 2 groups"));
  const auto batch = WaitForBatch(scheduler, 7, retry, [] { return absl::FailedPreconditionError("no server"); });
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(scheduler.asked, 1u);
}

TEST_F(PersistTest, ALongWaitIsExplained) {
  v1::FeedStats last, now;
  v1::GatewayStatusResponse gateways;
  last.set_dropped(10);
  now.set_dropped(10);
  now.set_running_episodes(3);
  v1::EngineStatusResponse engines;
  EXPECT_EQ(DescribeWait(7, 20, last, now, gateways, engines), "waiting for batch 7 for 20 s: 3 episodes running");
  now.set_dropped(50);
  EXPECT_THAT(
      DescribeWait(7, 20, last, now, gateways, engines),
      AllOf(HasSubstr("40 groups were dropped"), HasSubstr("mean reward 0.000"), HasSubstr("max_drops_per_batch")));
  now.set_failed(2);
  EXPECT_THAT(DescribeWait(7, 20, last, now, gateways, engines), HasSubstr("2 groups failed"));
  gateways.set_uncalled_episodes(4);
  gateways.set_oldest_uncalled_ms(161'900);
  EXPECT_THAT(DescribeWait(7, 20, last, now, gateways, engines),
              HasSubstr("3 episodes running, 4 episodes have made no call yet (oldest 161 s), 40 groups"));
  EXPECT_THAT(DescribeWait(7, 20, last, now, gateways, absl::UnavailableError("gone")), HasSubstr("2 groups failed"));
}

TEST_F(PersistTest, AWaitForAPrefillSaysHowFarItIs) {
  v1::FeedStats feed;
  feed.set_running_episodes(2);
  v1::EngineStatusResponse engines;
  v1::PrefillProgress& prefill = *engines.mutable_prefill();
  prefill.set_requests(2);
  prefill.set_tokens(401200);
  prefill.set_prefilled(34816);
  prefill.set_oldest_seconds(150.4);
  EXPECT_EQ(DescribeWait(0, 160, feed, feed, {}, engines),
            "waiting for batch 0 for 160 s: 2 episodes running, prefill 34816 of 401200 tokens of 2 requests, the "
            "oldest for 150 s");
}

TEST_F(PersistTest, WaitingForABatchEndsWithTheRun) {
  FakeScheduler scheduler;
  scheduler.answers.assign(100, absl::DeadlineExceededError("batch 7 has 1 of 2 groups"));
  scheduler.on_ask = [&] { stop = scheduler.asked == 10; };
  EXPECT_EQ(WaitForBatch(scheduler, 7, retry).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(scheduler.asked, 11u);
}

TEST_F(PersistTest, AnImpossibleBatchEndsTheRun) {
  FakeScheduler scheduler;
  scheduler.answers = {absl::AbortedError("another scheduler is writing this pool's journal")};
  EXPECT_EQ(WaitForBatch(scheduler, 7, retry).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(scheduler.asked, 1u);
}

}  // namespace
}  // namespace ingot::app
