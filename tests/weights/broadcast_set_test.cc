#include "weights/broadcast_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "weights/applying_engine.h"
#include "weights/make_snapshot.h"
#include "weights/publisher.h"

namespace ingot::weights::broadcast_set_test {
namespace {

using testing::ApplyingEngine;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SameWeights;
using namespace std::chrono_literals;

bool Await(const std::function<bool()>& done) {
  for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
    if (done()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return done();
}

// A group in memory: a broadcast waits until all its engines are in Receive, or it is ended.
class Exchange {
 public:
  absl::Status Join(int size) {
    base::MutexLock lock(mu_);
    ++joined_;
    changed_.SignalAll();
    while (joined_ < size && !ended_) changed_.Wait(mu_);
    return ended_ ? absl::DeadlineExceededError("not all came") : absl::OkStatus();
  }
  absl::StatusOr<std::string> TakeBytes(int engines) {
    base::MutexLock lock(mu_);
    ++waiting_;
    changed_.SignalAll();
    while ((bytes_ == nullptr || waiting_ < engines) && !ended_) changed_.Wait(mu_);
    if (ended_) return absl::AbortedError("the group has ended");
    std::string copy(*bytes_);
    if (++taken_ == engines) {
      waiting_ = taken_ = 0;
      bytes_ = nullptr;
      changed_.SignalAll();
    }
    while (bytes_ != nullptr && !ended_) changed_.Wait(mu_);
    return copy;
  }
  absl::Status Give(std::string_view bytes) {
    base::MutexLock lock(mu_);
    bytes_ = &bytes;
    changed_.SignalAll();
    while (bytes_ != nullptr && !ended_) changed_.Wait(mu_);
    return ended_ ? absl::AbortedError("the group has ended") : absl::OkStatus();
  }
  void End() {
    base::MutexLock lock(mu_);
    ended_ = true;
    changed_.SignalAll();
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  int joined_ ABSL_GUARDED_BY(mu_) = 0, waiting_ ABSL_GUARDED_BY(mu_) = 0, taken_ ABSL_GUARDED_BY(mu_) = 0;
  const std::string_view* bytes_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

// The exchanges by their secrets, as processes find each other's.
std::map<std::string, std::shared_ptr<Exchange>>& Exchanges() {
  static auto& exchanges = *new std::map<std::string, std::shared_ptr<Exchange>>;
  return exchanges;
}

class Root final : public BroadcastRoot {
 public:
  explicit Root(int size) : size_(size) { Exchanges()[secret_] = exchange_; }
  v1::JoinWeightGroupRequest Place() const override {
    v1::JoinWeightGroupRequest place;
    place.set_secret(secret_);
    return place;
  }
  absl::Status Connect() override { return exchange_->Join(size_); }
  absl::Status Broadcast(std::string_view bytes) override { return exchange_->Give(bytes); }
  void Abort() override { exchange_->End(); }

 private:
  static inline int made_ = 0;
  const int size_;
  const std::string secret_ = std::to_string(++made_);
  const std::shared_ptr<Exchange> exchange_ = std::make_shared<Exchange>();
};

// An engine's process, as its trainer calls it.
class Process final : public BroadcastMember, public Sink {
 public:
  absl::Status Join(const v1::JoinWeightGroupRequest& request) override {
    if (gone) return absl::UnavailableError("it is gone");
    exchange_ = Exchanges()[request.secret()];
    size_ = request.size();
    group_ = request.group();
    return exchange_->Join(size_);
  }
  absl::StatusOr<v1::UpdateWeightsResponse> Receive(const v1::ReceiveWeightsRequest& request) override {
    if (gone) return absl::UnavailableError("it is gone");
    if (request.group() != group_) return absl::AbortedError("not in the group");
    INGOT_ASSIGN_OR_RETURN(const std::string bytes, exchange_->TakeBytes(size_ - 1));
    EncodedDelta delta;
    delta.header = request.header();
    size_t at = 0;
    for (const v1::TensorPart& part : request.tensors()) {
      v1::TensorDelta& tensor = delta.tensors.emplace_back();
      tensor.set_tensor(static_cast<int32_t>(delta.tensors.size()) - 1);
      tensor.set_coding(part.coding());
      tensor.set_payload(bytes.substr(at, static_cast<size_t>(part.payload_bytes())));
      at += static_cast<size_t>(part.payload_bytes());
    }
    ++received;
    return engine.Update(delta);
  }
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    if (gone) return absl::UnavailableError("it is gone");
    ++sent;
    return engine.Update(delta);
  }
  absl::Status Release(int64_t version) override { return engine.Release(version); }
  absl::StatusOr<int64_t> LiveVersion() override {
    if (gone) return absl::UnavailableError("it is gone");
    return engine.LiveVersion();
  }
  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override { return engine.HeldVersions(); }

  ApplyingEngine engine;
  std::atomic<bool> gone = false;
  std::atomic<int> received = 0, sent = 0;  // versions, by broadcast and directly

 private:
  std::shared_ptr<Exchange> exchange_;
  int size_ = 0;
  std::string group_;
};

class BroadcastSetTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, std::shared_ptr<Process> process) {
    ASSERT_TRUE(publisher_.AddEngine(name, BroadcastSet::SinkTo(set_, name, process, process)).ok());
  }
  absl::Status Publish() {
    if (tensors_.views.empty()) {
      tensors_.Add("a", "F32", {500}, testing::RandomBytes(rng_, 2000));
      tensors_.Add("b", "BF16", {500}, testing::RandomBytes(rng_, 1000));
    }
    tensors_.bytes[static_cast<size_t>(++version_ % 2)][rng_() % 1000] ^= 1;
    newest_ = tensors_.TakeSnapshot(version_);
    return publisher_.Publish(newest_, false).status();
  }
  bool AwaitMembers(size_t count) {
    return Await([&] { return set_->members().size() == count; });
  }
  static PublisherOptions Within(std::chrono::milliseconds deadline) {
    PublisherOptions options;
    options.deadline = deadline;
    return options;
  }

  const std::shared_ptr<BroadcastSet> set_ =
      BroadcastSet::Make({.gather = 2s, .rebuild = 2ms, .retry = 10ms}, [](int size) {
        return std::make_shared<Root>(size);
      }).value();
  Publisher publisher_{Within(30s)};
  std::mt19937_64 rng_{1};
  testing::Tensors tensors_;
  int64_t version_ = -1;
  std::shared_ptr<const Snapshot> newest_;
};

TEST_F(BroadcastSetTest, SendsDeltasToAllAtOnceAndTheFirstVersionToEach) {
  const auto one = std::make_shared<Process>(), two = std::make_shared<Process>();
  Add("one", one);
  Add("two", two);
  ASSERT_EQ(Publish(), absl::OkStatus());
  ASSERT_TRUE(AwaitMembers(2));
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(Publish(), absl::OkStatus());
    EXPECT_TRUE(SameWeights(*one->engine.live(), *newest_) && SameWeights(*two->engine.live(), *newest_));
  }
  EXPECT_EQ(set_->broadcasts(), 5);
  EXPECT_EQ(one->received, 5);
  EXPECT_EQ(one->sent, 1);
  EXPECT_EQ(two->sent, 1);
}

TEST_F(BroadcastSetTest, AnEngineThatJoinsIsTakenIntoANewGroup) {
  const auto one = std::make_shared<Process>(), two = std::make_shared<Process>(), three = std::make_shared<Process>();
  Add("one", one);
  Add("two", two);
  ASSERT_EQ(Publish(), absl::OkStatus());
  ASSERT_TRUE(AwaitMembers(2));
  Add("three", three);
  ASSERT_TRUE(AwaitMembers(3));
  ASSERT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(three->received, 1);
  EXPECT_TRUE(SameWeights(*three->engine.live(), *newest_));
}

TEST_F(BroadcastSetTest, TheOthersGoOnDirectlyWhenOneIsLost) {
  const auto one = std::make_shared<Process>(), two = std::make_shared<Process>(), three = std::make_shared<Process>();
  Add("one", one);
  Add("two", two);
  Add("three", three);
  ASSERT_EQ(Publish(), absl::OkStatus());
  ASSERT_TRUE(AwaitMembers(3));
  three->gone = true;
  ASSERT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(publisher_.leased_engines(), 2);
  EXPECT_TRUE(SameWeights(*one->engine.live(), *newest_) && SameWeights(*two->engine.live(), *newest_));
  EXPECT_EQ(one->sent, 2);
  // A group of the two that are left, and of three when the third is back.
  ASSERT_TRUE(AwaitMembers(2));
  ASSERT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(one->received, 1);
  three->gone = false;
  publisher_.CheckLeases();
  ASSERT_TRUE(AwaitMembers(3));
  ASSERT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(publisher_.leased_engines(), 3);
  EXPECT_EQ(three->received, 1);
}

TEST_F(BroadcastSetTest, OneEngineAloneIsNoGroup) {
  const auto one = std::make_shared<Process>();
  Add("one", one);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Publish(), absl::OkStatus());
  EXPECT_THAT(set_->members(), IsEmpty());
  EXPECT_EQ(one->sent, 3);
}

TEST_F(BroadcastSetTest, AMemberWhoseUpdateDoesNotComeHoldsNobodyBack) {
  const auto one = std::make_shared<Process>(), two = std::make_shared<Process>();
  const auto set = BroadcastSet::Make({.gather = 20ms, .rebuild = 2ms, .retry = 10ms}, [](int size) {
                     return std::make_shared<Root>(size);
                   }).value();
  const auto first = BroadcastSet::SinkTo(set, "one", one, one), second = BroadcastSet::SinkTo(set, "two", two, two);
  ASSERT_EQ(Publish().code(), absl::StatusCode::kUnavailable);  // it has no engines: only the snapshot is wanted
  const std::shared_ptr<const Snapshot> zero = newest_;
  ASSERT_TRUE(first->Update(Encode(nullptr, *zero, false).value()).ok());
  ASSERT_TRUE(second->Update(Encode(nullptr, *zero, false).value()).ok());
  ASSERT_TRUE(Await([&] { return set->members().size() == 2; }));
  ASSERT_EQ(Publish().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(first->Update(Encode(zero.get(), *newest_, false).value()).status(), absl::OkStatus());
  EXPECT_EQ(one->sent, 2);
  EXPECT_EQ(one->received, 0);
}

}  // namespace
}  // namespace ingot::weights::broadcast_set_test
