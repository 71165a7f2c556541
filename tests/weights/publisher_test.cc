#include "weights/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "weights/applying_engine.h"
#include "weights/make_snapshot.h"

namespace ingot::weights {
namespace {

using ::testing::ElementsAre;
using testing::SameWeights;
using namespace std::chrono_literals;

// An engine that applies the updates that it is sent. A test can make it fail, or hang until LetGo.
class FakeEngine final : public Sink {
 public:
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    base::MutexLock lock(mu_);
    ++entered_;
    last_sent_ = &delta;
    changed_.SignalAll();
    while (hung_ && passes_ == 0) changed_.Wait(mu_);
    if (hung_) --passes_;
    if (!error_.ok()) return error_;
    const bool beside = delta.header.beside();
    if (beside && !beside_error_.ok()) return beside_error_;
    if (beside && full_) return absl::ResourceExhaustedError("it holds as many as it may");
    if (!beside && std::exchange(restarts_, false)) Restart();
    EncodedDelta received = delta;
    if (damage_next_ && !IsFullCopy(delta.header)) {
      damage_next_ = false;
      received.tensors[0].mutable_payload()->push_back('!');
    }
    auto applied = Apply(held_, received);
    if (!applied.ok()) return applied.status();
    if (beside) {
      EXPECT_TRUE(delta.header.retain() && IsFullCopy(delta.header));
      log_.push_back("beside " + std::to_string((*applied)->version()));
      retained_[(*applied)->version()] = (*applied)->checksum();
      v1::UpdateWeightsResponse response;
      response.set_version((*applied)->version());
      return response;
    }
    held_ = *applied;
    log_.push_back((IsFullCopy(delta.header) ? "full " : "delta ") + std::to_string(held_->version()));
    v1::UpdateWeightsResponse response;
    response.set_not_retained(delta.header.retain() && full_);
    if (delta.header.retain() && !full_) {
      log_.back() += " retained";
      retained_[held_->version()] = held_->checksum();
    }
    response.set_version(held_->version());
    response.set_pause_ms(pause_ms_);
    return response;
  }
  absl::Status Release(int64_t version) override {
    base::MutexLock lock(mu_);
    log_.push_back("release " + std::to_string(version));
    if (error_.ok()) retained_.erase(version);
    return error_;
  }

  absl::StatusOr<int64_t> LiveVersion() override {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Asked());
    return held_ == nullptr ? -1 : held_->version();
  }

  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Asked());
    std::map<int64_t, uint64_t> versions = retained_;
    if (held_ != nullptr) versions.emplace(held_->version(), held_->checksum());
    std::vector<HeldVersion> all;
    for (const auto& [version, checksum] : versions) all.push_back({version, says_checksums_ ? checksum : 0});
    return all;
  }

  void Hang() {
    Set([&] { hung_ = true; });
  }
  void LetOnePass() {
    Set([&] { ++passes_; });
  }
  void LetGo() {
    Set([&] { hung_ = false; });
  }
  void Fail(absl::Status status) {
    Set([&] { error_ = std::move(status); });
  }
  void DamageNext() {
    Set([&] { damage_next_ = true; });
  }
  void FailBeside(absl::Status status) {
    Set([&] { beside_error_ = std::move(status); });
  }
  // LiveVersion and HeldVersions fail.
  void FailAsked(absl::Status status) {
    Set([&] { asked_error_ = std::move(status); });
  }
  // The engine is started again, without weights.
  void Forget() {
    Set([&] { Restart(); });
  }
  void ForgetBeforeTheNextUpdate() {
    Set([&] { restarts_ = true; });
  }
  void RetainNoMore(bool no_more = true) {
    Set([&] { full_ = no_more; });
  }
  // It retains `snapshot` from before. `says_checksum`: HeldVersions names checksums.
  void Holds(const Snapshot& snapshot, bool says_checksum) {
    Set([&] {
      retained_[snapshot.version()] = snapshot.checksum();
      says_checksums_ = says_checksum;
    });
  }
  // The argument of the running or last Update.
  const EncodedDelta* last_sent() {
    base::MutexLock lock(mu_);
    return last_sent_;
  }
  void PauseFor(double ms) {
    Set([&] { pause_ms_ = ms; });
  }
  std::shared_ptr<const Snapshot> held() {
    base::MutexLock lock(mu_);
    return held_;
  }
  std::vector<std::string> log() {
    base::MutexLock lock(mu_);
    return log_;
  }
  void AwaitEntered(int times) {
    base::MutexLock lock(mu_);
    while (entered_ < times) changed_.Wait(mu_);
  }
  int asked() {
    base::MutexLock lock(mu_);
    return asked_;
  }
  void AwaitAsked(int times) {
    base::MutexLock lock(mu_);
    while (asked_ < times) changed_.Wait(mu_);
  }
  int entered() {
    base::MutexLock lock(mu_);
    return entered_;
  }
  void AwaitLogged(size_t entries) {
    while (log().size() < entries) std::this_thread::yield();
  }

 private:
  template <typename Change>
  void Set(Change change) {
    base::MutexLock lock(mu_);
    change();
    changed_.SignalAll();
  }
  void Restart() {
    held_ = nullptr;
    retained_.clear();
  }
  absl::Status Asked() {
    ++asked_;
    changed_.SignalAll();
    return error_.ok() ? asked_error_ : error_;
  }

  base::Mutex mu_;
  base::CondVar changed_;
  bool hung_ = false;
  int passes_ = 0;
  bool damage_next_ = false;
  bool restarts_ = false;
  bool full_ = false;
  int asked_ = 0;
  absl::Status beside_error_, asked_error_;
  std::map<int64_t, uint64_t> retained_;  // by version: its checksum
  bool says_checksums_ = true;
  double pause_ms_ = 0;
  int entered_ = 0;
  const EncodedDelta* last_sent_ = nullptr;
  absl::Status error_;
  std::shared_ptr<const Snapshot> held_;
  std::vector<std::string> log_;
};

// An engine of the publisher's own process. Encoded updates fail.
class SharingEngine final : public testing::HoldingEngine {
 public:
  bool SharesMemory() const override { return true; }
  absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const Snapshot>& snapshot,
                                                  Place place) override {
    base::MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    const char* const names[] = {"live ", "live retained ", "beside "};
    log_.push_back(names[static_cast<int>(place)] + std::to_string(snapshot->version()));
    if (place != Place::kLive) retained_[snapshot->version()] = snapshot;
    if (place != Place::kBeside) live_ = snapshot;
    v1::UpdateWeightsResponse response;
    response.set_version(snapshot->version());
    response.set_apply_ms(4);
    response.set_wait_ms(2);
    response.set_pause_ms(1);
    return response;
  }
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta&) override {
    return absl::InternalError("it was to be shared");
  }
  void Fail(absl::Status status) {
    base::MutexLock lock(mu_);
    error_ = std::move(status);
  }

 private:
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

// A model of two tensors; each version changes one element.
std::shared_ptr<const Snapshot> Version(int64_t version) {
  testing::Tensors tensors;
  std::mt19937_64 rng(1);
  tensors.Add("a", "F32", {500}, testing::RandomBytes(rng, 2000));
  tensors.Add("b", "F32", {500}, testing::RandomBytes(rng, 2000));
  std::memcpy(tensors.bytes[0].data(), &version, sizeof(version));
  return tensors.TakeSnapshot(version);
}

class PublisherTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeEngine> Add(const std::string& name) {
    auto engine = std::make_shared<FakeEngine>();
    EXPECT_TRUE(publisher_.AddEngine(name, engine).ok());
    return engine;
  }
  absl::StatusOr<PublishStats> Publish(int64_t version, bool retain = false) {
    return publisher_.Publish(Version(version), retain);
  }
  // Publishes, and lets the deadline pass once every engine but `hung` ones has confirmed.
  absl::StatusOr<PublishStats> PublishPastTheDeadline(int64_t version, int hung) {
    auto published = std::async(std::launch::async, [&] { return Publish(version); });
    const auto settled = [&] {
      int confirmed = 0, inside = 0;
      for (const EngineInfo& engine : publisher_.engines()) {
        confirmed += engine.version == version;
        inside += engine.busy && engine.version != version;
      }
      return inside == hung && confirmed + hung == static_cast<int>(publisher_.engines().size());
    };
    while (!settled()) std::this_thread::yield();
    clock_.AwaitWaiters(1);
    clock_.Advance(1s);
    return published.get();
  }
  void AwaitLeased(int engines) {
    while (publisher_.leased_engines() != engines) std::this_thread::yield();
  }

  base::ManualClock clock_;
  Publisher publisher_{{.deadline = 1s, .codec = {}}, clock_};
};

TEST_F(PublisherTest, SendsAFullCopyFirstAndDeltasAfter) {
  auto a = Add("a"), b = Add("b");
  a->PauseFor(1.5);
  b->PauseFor(2.5);
  EXPECT_EQ(publisher_.newest(), nullptr);
  const auto first = Publish(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(publisher_.leased_engines(), 2);
  const auto second = Publish(1, true);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->version, 1);
  EXPECT_EQ(second->full_bytes, 4000);
  EXPECT_LT(second->wire_bytes, 400);
  EXPECT_DOUBLE_EQ(second->density, 1.0 / 1000);
  EXPECT_EQ(second->full_copies, 0);
  EXPECT_EQ(second->leases_lost, 0);
  EXPECT_EQ(second->pause_ms, 2.5);
  for (const auto& engine : {a, b}) {
    EXPECT_THAT(engine->log(), ElementsAre("full 0", "delta 1 retained"));
    EXPECT_TRUE(SameWeights(*engine->held(), *Version(1)));
  }
  EXPECT_EQ(publisher_.newest()->version(), 1);
}

TEST_F(PublisherTest, HealsARejectedDeltaByAFullCopy) {
  auto damaged = Add("damaged"), restarted = Add("restarted");
  ASSERT_TRUE(Publish(0).ok());
  damaged->DamageNext();
  restarted->Forget();
  const auto stats = Publish(1);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->full_copies, 2);
  EXPECT_EQ(stats->leases_lost, 0);
  EXPECT_EQ(publisher_.leased_engines(), 2);
  EXPECT_TRUE(SameWeights(*damaged->held(), *Version(1)));
  EXPECT_TRUE(SameWeights(*restarted->held(), *Version(1)));
}

TEST_F(PublisherTest, CallsEnginesInParallel) {
  auto a = Add("a"), b = Add("b");
  ASSERT_TRUE(Publish(0).ok());
  a->Hang();
  b->Hang();
  auto published = std::async(std::launch::async, [&] { return Publish(1); });
  // Both are inside Update at once, and neither has answered.
  a->AwaitEntered(2);
  b->AwaitEntered(2);
  a->LetGo();
  b->LetGo();
  EXPECT_TRUE(published.get().ok());
}

TEST_F(PublisherTest, IsNotDoneBeforeEveryLeasedEngineConfirmed) {
  auto a = Add("a"), b = Add("b");
  ASSERT_TRUE(Publish(0).ok());
  b->Hang();
  std::atomic<bool> done{false};
  auto published = std::async(std::launch::async, [&] {
    auto stats = Publish(1);
    done = true;
    return stats;
  });
  b->AwaitEntered(2);
  a->AwaitLogged(2);
  EXPECT_FALSE(done);
  b->LetGo();
  EXPECT_TRUE(published.get().ok());
  EXPECT_EQ(publisher_.leased_engines(), 2);
}

TEST_F(PublisherTest, ASlowEngineLosesItsLeaseAndComesBackByItself) {
  auto fast = Add("fast"), slow = Add("slow");
  ASSERT_TRUE(Publish(0).ok());
  slow->Hang();
  const auto late = PublishPastTheDeadline(1, 1);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->leases_lost, 1);
  EXPECT_EQ(publisher_.leased_engines(), 1);
  // A hung engine without a lease delays nobody: the clock stands still here.
  const auto next = Publish(2);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->leases_lost, 0);
  EXPECT_TRUE(SameWeights(*fast->held(), *Version(2)));
  slow->LetGo();
  AwaitLeased(2);
  EXPECT_TRUE(SameWeights(*slow->held(), *Version(2)));
  ASSERT_TRUE(Publish(3).ok());
  EXPECT_THAT(slow->log(), ElementsAre("full 0", "delta 1", ::testing::AnyOf("delta 2", "full 2"), "delta 3"));
}

TEST_F(PublisherTest, AnEngineThatConfirmsAnOldVersionIsNotLeasedYet) {
  auto fast = Add("fast"), slow = Add("slow");
  ASSERT_TRUE(Publish(0).ok());
  slow->Hang();
  ASSERT_TRUE(PublishPastTheDeadline(1, 1).ok());
  ASSERT_TRUE(Publish(2).ok());
  slow->LetOnePass();     // confirms version 1, too late
  slow->AwaitEntered(3);  // and is sent version 2 at once
  EXPECT_EQ(publisher_.leased_engines(), 1);
  slow->LetGo();
  AwaitLeased(2);
  EXPECT_TRUE(SameWeights(*slow->held(), *Version(2)));
}

TEST_F(PublisherTest, AFailedEngineIsRetriedWithAFullCopyByTheNextPublish) {
  auto good = Add("good"), bad = Add("bad");
  ASSERT_TRUE(Publish(0).ok());
  bad->Fail(absl::UnavailableError("gone"));
  const auto lost = Publish(1);
  ASSERT_TRUE(lost.ok());
  EXPECT_EQ(lost->leases_lost, 1);
  EXPECT_EQ(publisher_.leased_engines(), 1);
  bad->Fail(absl::OkStatus());
  ASSERT_TRUE(Publish(2).ok());
  AwaitLeased(2);
  EXPECT_THAT(bad->log(), ElementsAre("full 0", "full 2"));
}

TEST_F(PublisherTest, ALostEngineIsTriedBeforeTheNextVersion) {
  auto good = Add("good"), bad = Add("bad");
  ASSERT_TRUE(Publish(0).ok());
  bad->Fail(absl::UnavailableError("gone"));
  ASSERT_TRUE(Publish(1).ok());
  bad->Fail(absl::OkStatus());
  publisher_.CheckLeases();
  AwaitLeased(2);
  EXPECT_THAT(bad->log(), ElementsAre("full 0", "full 1"));
  EXPECT_THAT(good->log(), ElementsAre("full 0", "delta 1"));
}

TEST_F(PublisherTest, ARestartedEngineGetsItsWeightsBeforeTheNextVersion) {
  auto steady = Add("steady"), restarted = Add("restarted");
  ASSERT_TRUE(Publish(0).ok());
  ASSERT_TRUE(Publish(1).ok());
  restarted->Forget();
  publisher_.CheckLeases();
  restarted->AwaitLogged(3);
  AwaitLeased(2);
  EXPECT_THAT(restarted->log(), ElementsAre("full 0", "delta 1", "full 1"));
  EXPECT_THAT(steady->log(), ElementsAre("full 0", "delta 1"));
  const auto next = Publish(2);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->leases_lost, 1);
  EXPECT_EQ(next->full_copies, 0);
}

TEST_F(PublisherTest, ARestartedEngineGetsItsRetainedVersionsBack) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  ASSERT_TRUE(Publish(2, true).ok());
  ASSERT_TRUE(Publish(3).ok());
  ASSERT_TRUE(publisher_.Release(0).ok());
  engine->Forget();
  publisher_.CheckLeases();
  engine->AwaitLogged(7);
  AwaitLeased(1);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "delta 2 retained", "delta 3", "release 0",
                                         "beside 2", "full 3"));
  // A late joiner is sent no released version.
  ASSERT_TRUE(publisher_.Release(2).ok());
  auto late = Add("late");
  AwaitLeased(2);
  EXPECT_THAT(late->log(), ElementsAre("full 3"));
}

TEST_F(PublisherTest, ARejectedDeltaBringsTheRetainedVersionsBackToo) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Forget();  // and refuses the next delta
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 2"));
}

TEST_F(PublisherTest, ARestartBeforeTheFullCopyBringsTheRetainedVersionsAgain) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Forget();
  engine->ForgetBeforeTheNextUpdate();  // once it has got version 0
  publisher_.CheckLeases();
  engine->AwaitLogged(4);
  AwaitLeased(1);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 1", "beside 0"));
}

TEST_F(PublisherTest, AnEngineThatDoesNotNameItsVersionsIsNotLeased) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Forget();
  engine->FailAsked(absl::UnavailableError("being started"));
  const int asked = engine->asked();
  publisher_.CheckLeases();
  AwaitLeased(0);
  publisher_.CheckLeases();
  engine->AwaitAsked(asked + 2);  // once for its lease, once before a full copy
  engine->FailAsked(absl::OkStatus());
  publisher_.CheckLeases();
  AwaitLeased(1);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 1"));
}

TEST_F(PublisherTest, ARetainedVersionIsSentUntilTheEngineHasIt) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Forget();
  engine->FailBeside(absl::DataLossError("a checksum differs"));
  publisher_.CheckLeases();
  engine->AwaitEntered(3);
  engine->FailBeside(absl::OkStatus());
  publisher_.CheckLeases();
  AwaitLeased(1);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 1"));
}

TEST_F(PublisherTest, AnEngineThatRejectsARetainedVersionServesWithoutIt) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Forget();
  engine->RetainNoMore();
  publisher_.CheckLeases();
  engine->AwaitLogged(3);
  AwaitLeased(1);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "full 1"));
  EXPECT_EQ(engine->entered(), 4) << "the refused version was sent once";
}

// The run went back to a checkpoint and made version 0 again; these engines hold the earlier version 0.
TEST_F(PublisherTest, OtherWeightsUnderARetainedNumberAreReplaced) {
  testing::Tensors before;
  before.Add("a", "F32", {1}, "1234");
  const auto other = before.TakeSnapshot(0);
  auto steady = Add("steady"), outlived = std::make_shared<FakeEngine>(), silent = std::make_shared<FakeEngine>();
  outlived->Holds(*other, true);
  silent->Holds(*other, false);
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  ASSERT_TRUE(publisher_.AddEngine("outlived", outlived).ok());
  AwaitLeased(2);
  ASSERT_TRUE(publisher_.AddEngine("silent", silent).ok());
  AwaitLeased(3);
  EXPECT_THAT(outlived->log(), ElementsAre("beside 0", "full 1"));
  EXPECT_EQ(outlived->HeldVersions()->front(), (HeldVersion{0, Version(0)->checksum()}));
  EXPECT_THAT(silent->log(), ElementsAre("full 1")) << "without a checksum, equal numbers count as equal weights";
}

TEST_F(PublisherTest, AnEngineThatWasAwayGetsTheVersionsRetainedMeanwhile) {
  auto steady = Add("steady"), away = Add("away");
  ASSERT_TRUE(Publish(0).ok());
  away->Fail(absl::UnavailableError("gone"));
  ASSERT_TRUE(Publish(1, true).ok());
  away->Fail(absl::OkStatus());
  ASSERT_TRUE(Publish(2).ok());
  AwaitLeased(2);
  EXPECT_THAT(away->log(), ElementsAre("full 0", "beside 1", "full 2"));
  EXPECT_THAT(publisher_.HeldVersions(), ElementsAre(std::pair(1, 2), std::pair(2, 2)));
}

// HeldVersions names the live version, which is gone once the newest replaces it.
TEST_F(PublisherTest, ALiveVersionThatIsNotRetainedIsSentAgainOnceItIsReplaced) {
  auto steady = Add("steady"), engine = Add("full for a while");
  engine->RetainNoMore();
  ASSERT_TRUE(Publish(0, true).ok());
  engine->Fail(absl::UnavailableError("gone"));
  ASSERT_TRUE(Publish(1).ok());
  engine->RetainNoMore(false);
  engine->Fail(absl::OkStatus());
  publisher_.CheckLeases();
  AwaitLeased(2);
  EXPECT_THAT(engine->log(), ElementsAre("full 0", "full 1", "beside 0"));
}

TEST_F(PublisherTest, EnginesRestartedAtOnceShareOneCopyOfARetainedVersion) {
  auto a = Add("a"), b = Add("b");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  for (const auto& engine : {a, b}) {
    engine->Forget();
    engine->Hang();
  }
  publisher_.CheckLeases();
  a->AwaitEntered(3);
  b->AwaitEntered(3);
  EXPECT_EQ(a->last_sent(), b->last_sent());
  for (const auto& engine : {a, b}) engine->LetGo();
  AwaitLeased(2);
  EXPECT_THAT(a->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 1"));
  EXPECT_THAT(b->log(), ElementsAre("full 0 retained", "delta 1", "beside 0", "full 1"));
}

TEST_F(PublisherTest, AResumedRunsEnginesGetTheRetainedVersionsBeforeTheNewest) {
  publisher_.Retain(Version(2));
  publisher_.Retain(Version(4));
  auto empty = Add("empty"), kept = Add("kept");
  // This engine outlived the trainer before.
  ASSERT_TRUE(kept->Update(*Encode(nullptr, *Version(5), false)).ok());
  ASSERT_TRUE(Publish(4, true).ok());  // the checkpoint from which the run continues
  ASSERT_TRUE(Publish(5).ok());
  EXPECT_THAT(empty->log(), ElementsAre("beside 2", "full 4 retained", "delta 5"));
  EXPECT_THAT(kept->log(), ElementsAre("full 5", "beside 2", "full 4 retained", "delta 5"));
  ASSERT_TRUE(publisher_.Release(2).ok());
  empty->Forget();
  publisher_.CheckLeases();
  empty->AwaitLogged(6);
  AwaitLeased(2);
  EXPECT_THAT(empty->log(), ElementsAre("beside 2", "full 4 retained", "delta 5", "release 2", "beside 4", "full 5"));
}

TEST_F(PublisherTest, AnEngineIsNotLeftWithAReleasedVersion) {
  auto engine = Add("restarted");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(publisher_.Release(0).ok());
  engine->Forget();
  publisher_.CheckLeases();
  engine->AwaitLogged(4);
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "release 0", "full 0 retained", "release 0"));
}

TEST_F(PublisherTest, ADeadEngineLosesItsLeaseBeforeTheNextVersion) {
  auto steady = Add("steady"), dead = Add("dead");
  ASSERT_TRUE(Publish(0).ok());
  dead->Fail(absl::UnavailableError("gone"));
  publisher_.CheckLeases();
  AwaitLeased(1);
  dead->Fail(absl::OkStatus());
  publisher_.CheckLeases();
  AwaitLeased(2);
  EXPECT_THAT(dead->log(), ElementsAre("full 0", "full 0"));
}

TEST_F(PublisherTest, ALateJoinerStartsWithTheNewest) {
  auto early = Add("early");
  ASSERT_TRUE(Publish(0).ok());
  ASSERT_TRUE(Publish(1).ok());
  auto late = Add("late");
  AwaitLeased(2);
  EXPECT_THAT(late->log(), ElementsAre("full 1"));
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_THAT(late->log(), ElementsAre("full 1", "delta 2"));
}

TEST_F(PublisherTest, IsUnavailableWithoutALeaseAndCanBeTriedAgain) {
  EXPECT_EQ(Publish(0).status().code(), absl::StatusCode::kUnavailable);
  auto only = Add("only");
  AwaitLeased(1);
  only->Fail(absl::UnavailableError("gone"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Publish(1).status().code(), absl::StatusCode::kUnavailable);
  only->Fail(absl::OkStatus());
  const auto again = Publish(1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(SameWeights(*only->held(), *Version(1)));
  EXPECT_EQ(again->leases_lost, 1);  // the first try lost it and returned no statistics
  EXPECT_EQ(again->full_copies, 1);
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_THAT(only->log(), ElementsAre("full 0", "full 1", "delta 2"));
}

TEST_F(PublisherTest, AVersionThatAllEnginesRejectForGoodIsNotWorthTryingAgain) {
  auto rejecting = Add("refusing"), gone = Add("gone");
  ASSERT_TRUE(Publish(0).ok());
  rejecting->Fail(absl::InvalidArgumentError("another model's weights"));
  gone->Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(Publish(1).status().code(), absl::StatusCode::kUnavailable);
  gone->Fail(absl::InternalError("out of memory"));
  const absl::Status rejected = Publish(1).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("refusing: another model's weights"));
}

TEST_F(PublisherTest, SaysWhetherAllEnginesRetainTheVersion) {
  auto roomy = Add("roomy"), full = Add("full");
  EXPECT_TRUE(Publish(0, true)->retained);
  EXPECT_FALSE(Publish(1)->retained);
  full->RetainNoMore();
  const auto stats = Publish(2, true);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_FALSE(stats->retained);
  EXPECT_EQ(publisher_.leased_engines(), 2);
  EXPECT_THAT(full->log(), ElementsAre("full 0 retained", "delta 1", "delta 2"));
}

TEST_F(PublisherTest, VersionsRise) {
  auto engine = Add("a");
  ASSERT_TRUE(Publish(5).ok());
  EXPECT_EQ(Publish(4).status().code(), absl::StatusCode::kInvalidArgument);
  testing::Tensors other;
  other.Add("a", "F32", {1}, "1234");
  EXPECT_EQ(publisher_.Publish(other.TakeSnapshot(5), false).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Publish(5, true).ok());  // the same weights, now retained
  EXPECT_THAT(engine->log(), ElementsAre("full 5", "delta 5 retained"));
}

TEST_F(PublisherTest, ReleaseReachesEveryEngineEvenAHungOneLater) {
  auto good = Add("good"), slow = Add("slow");
  ASSERT_TRUE(Publish(0, true).ok());
  EXPECT_TRUE(publisher_.Release(7).ok());
  slow->Hang();
  ASSERT_TRUE(PublishPastTheDeadline(1, 1).ok());
  EXPECT_TRUE(publisher_.Release(0).ok());  // of the leased engine; the hung one is told when it answers
  EXPECT_THAT(good->log(), ElementsAre("full 0 retained", "release 7", "delta 1", "release 0"));
  slow->LetGo();
  slow->AwaitLogged(4);
  EXPECT_THAT(slow->log(), ElementsAre("full 0 retained", "release 7", "delta 1", "release 0"));
  good->Fail(absl::InternalError("no"));
  EXPECT_FALSE(publisher_.Release(1).ok());
}

TEST_F(PublisherTest, AnEngineThatCouldNotBeToldOfAReleaseIsToldWhenItAnswers) {
  auto engine = Add("away for a while");
  ASSERT_TRUE(Publish(0, true).ok());
  ASSERT_TRUE(Publish(1).ok());
  engine->Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(publisher_.Release(0).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(publisher_.HeldVersions().empty());
  engine->Fail(absl::OkStatus());
  EXPECT_THAT(publisher_.HeldVersions(), ElementsAre(std::pair(0, 1), std::pair(1, 1)));
  publisher_.CheckLeases();
  engine->AwaitLogged(4);
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_THAT(engine->log(), ElementsAre("full 0 retained", "delta 1", "release 0", "release 0", "delta 2"));
  EXPECT_THAT(publisher_.HeldVersions(), ElementsAre(std::pair(2, 1)));
}

TEST_F(PublisherTest, ManyVersionsWithEnginesThatComeAndGo) {
  std::vector<std::shared_ptr<FakeEngine>> engines;
  for (int i = 0; i < 4; ++i) engines.push_back(Add(std::to_string(i)));
  std::mt19937_64 rng(3);
  for (int64_t version = 0; version < 200; ++version) {
    for (size_t i = 1; i < engines.size(); ++i) {
      engines[i]->Fail(rng() % 5 == 0 ? absl::UnavailableError("gone") : absl::OkStatus());
      if (rng() % 7 == 0) engines[i]->Forget();
      if (rng() % 7 == 0) engines[i]->DamageNext();
    }
    const auto stats = Publish(version);
    ASSERT_TRUE(stats.ok()) << stats.status();
    if (version > 0) {
      ASSERT_TRUE(SameWeights(*engines[0]->held(), *Version(version)));
    }
  }
  for (size_t i = 0; i < engines.size(); ++i) engines[i]->Fail(absl::OkStatus());
  ASSERT_TRUE(Publish(200).ok());
  AwaitLeased(4);
  for (const auto& engine : engines) EXPECT_TRUE(SameWeights(*engine->held(), *Version(200)));
}

TEST_F(PublisherTest, AnEngineThatSharesMemoryGetsTheVersionItself) {
  auto engine = std::make_shared<SharingEngine>();
  ASSERT_TRUE(publisher_.AddEngine("own", engine).ok());
  publisher_.Retain(Version(7));  // of an earlier publisher
  const auto first = Version(8), second = Version(9);
  ASSERT_TRUE(publisher_.Publish(first, false).ok());
  EXPECT_EQ(engine->live(), first) << "the same memory";
  EXPECT_THAT(engine->log(), ElementsAre("beside 7", "live 8"));
  const auto stats = publisher_.Publish(second, true);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(engine->live(), second);
  EXPECT_EQ(engine->log().back(), "live retained 9");
  EXPECT_EQ(stats->wire_bytes, 0) << "nothing was encoded";
  EXPECT_DOUBLE_EQ(stats->density, 1.0 / 1000);
  EXPECT_EQ(stats->full_copies, 0);
  EXPECT_TRUE(stats->retained);
  EXPECT_EQ(stats->apply_ms, 4);
  EXPECT_EQ(stats->wait_ms, 2);
  EXPECT_EQ(stats->pause_ms, 1);
  EXPECT_EQ(stats->version_lag, 0);

  // An engine of another process joins: it gets a full copy, then deltas.
  auto far = Add("far");
  AwaitLeased(2);
  EXPECT_THAT(far->log(), ElementsAre("beside 7", "full 9 retained"));
  const auto third = publisher_.Publish(Version(10), false);
  ASSERT_TRUE(third.ok());
  EXPECT_GT(third->wire_bytes, 0);
  EXPECT_EQ(far->log().back(), "delta 10");
  EXPECT_EQ(engine->log().back(), "live 10");
}

TEST_F(PublisherTest, SaysHowFarTheSlowestEngineIsBehind) {
  auto a = Add("a"), b = Add("b");
  ASSERT_TRUE(Publish(0).ok());
  b->Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(Publish(1)->version_lag, 1);
  EXPECT_EQ(Publish(2)->version_lag, 2);
  b->Fail(absl::OkStatus());
  ASSERT_TRUE(Publish(3).ok());
  AwaitLeased(2);
  EXPECT_EQ(Publish(4)->version_lag, 0);
}

TEST(PublisherOptions, AreChecked) {
  EXPECT_TRUE(PublisherOptions().Validate().ok());
  EXPECT_FALSE((PublisherOptions{.deadline = 0ms, .codec = {}}).Validate().ok());
  EXPECT_FALSE((PublisherOptions{.deadline = 1s, .codec = {.zstd_level = 99}}).Validate().ok());
  EXPECT_FALSE((PublisherOptions{.deadline = 1s, .codec = {.max_bytes = 0}}).Validate().ok());
  EXPECT_FALSE((PublisherOptions{.deadline = 1s, .codec = {.threads = 0}}).Validate().ok());
}

}  // namespace
}  // namespace ingot::weights
