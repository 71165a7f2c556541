// Trainer and engines with a store between them: VersionWriter, NewObjectSink and Follower.
#include "weights/stores/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <random>
#include <thread>

#include "base/checksum.h"
#include "weights/applying_engine.h"
#include "weights/make_snapshot.h"
#include "weights/publisher.h"
#include "weights/stores/faulty_store.h"
#include "weights/stores/object_sink.h"
#include "weights/stores/object_stores.h"

namespace ingot::weights {
namespace {

using testing::ApplyingEngine;
using ::testing::ElementsAre;
using testing::FaultyStore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SameWeights;
using testing::StoreOfTest;
using namespace std::chrono_literals;

constexpr char kRun[] = "run-1";

// Waits until `done`, at most 30 s.
bool Await(const std::function<bool()>& done) {
  for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
    if (done()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return done();
}

// Three tensors, of which each version changes a few words.
class Model {
 public:
  std::shared_ptr<const Snapshot> Next() {
    if (version_ < 0) {
      tensors_.Add("a", "F32", {500}, testing::RandomBytes(rng_, 2000));
      tensors_.Add("b", "BF16", {40, 50}, testing::RandomBytes(rng_, 4000));
      tensors_.Add("c", "F32", {3}, testing::RandomBytes(rng_, 12));
    } else {
      for (int i = 0; i < 5; ++i) tensors_.bytes[i % 2][static_cast<size_t>(rng_() % 2000)] ^= 1;
    }
    return tensors_.TakeSnapshot(++version_);
  }

 private:
  std::mt19937_64 rng_{7};
  testing::Tensors tensors_;
  int64_t version_ = -1;
};

EncodedDelta DeltaOf(const Snapshot* base, const Snapshot& target, bool retain = false) {
  return Encode(base, target, retain).value();
}

PublisherOptions Within(std::chrono::milliseconds deadline) {
  PublisherOptions options;
  options.deadline = deadline;
  return options;
}

HeldVersion NameOf(const Snapshot& snapshot) { return {snapshot.version(), snapshot.checksum()}; }

// An engine's process: the engine and its follower.
struct Process {
  Process(std::shared_ptr<ObjectStore> store, const std::string& name, size_t room = 4) : engine(room) {
    FollowerOptions options{.run = kRun, .engine = name, .poll = 2ms, .heartbeat = 5ms, .retry = 5ms};
    follower = Follower::Start(std::move(store), engine, options).value();
  }
  ApplyingEngine engine;
  std::unique_ptr<Follower> follower;
};

class FollowerTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!stores_.missing().empty()) GTEST_SKIP() << stores_.missing();
  }
  std::unique_ptr<VersionWriter> Writer(int anchor_every = 16, const std::string& history = "h") {
    WriterOptions options{.run = kRun, .history = history, .shards = 2, .anchor_every = anchor_every};
    return VersionWriter::Open(store_, options, [this] { return newest_; }).value();
  }
  std::unique_ptr<Sink> SinkOf(std::shared_ptr<VersionWriter> writer, const std::string& engine) {
    return NewObjectSink(std::move(writer), engine, {.deadline = 30s, .poll = 2ms}).value();
  }
  // Publishes the next version without waiting for anybody.
  std::shared_ptr<const Snapshot> Next(VersionWriter& writer, bool retain = false) {
    const std::shared_ptr<const Snapshot> before = newest_;
    newest_ = model_.Next();
    EXPECT_EQ(writer.Publish(DeltaOf(before.get(), *newest_, retain), false).status(), absl::OkStatus());
    return newest_;
  }
  void Damage(const std::string& key) {
    std::string bytes = store_->Get(key, 1 << 20)->bytes;
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(store_->Put(key, bytes).ok());
  }
  std::string DeltaShard(const Snapshot& version) { return VersionFolder(kRun, NameOf(version)) + "/delta/shard-0"; }

  StoreOfTest stores_{GetParam()};
  const std::shared_ptr<ObjectStore> store_ = stores_.Open();
  Model model_;
  std::shared_ptr<const Snapshot> newest_;
};
INSTANTIATE_TEST_SUITE_P(Stores, FollowerTest, ::testing::ValuesIn(testing::kStores),
                         [](const auto& kind) { return kind.param; });

TEST_P(FollowerTest, BringsEveryVersionToEveryEngineOfAPublisher) {
  Publisher publisher(Within(30s));
  const std::shared_ptr<VersionWriter> writer = Writer();
  Process one(store_, "rollout-0"), two(store_, "rollout-1");
  ASSERT_TRUE(publisher.AddEngine("rollout-0", SinkOf(writer, "rollout-0")).ok());
  ASSERT_TRUE(publisher.AddEngine("rollout-1", SinkOf(writer, "rollout-1")).ok());
  for (int i = 0; i < 4; ++i) {
    newest_ = model_.Next();
    const auto stats = publisher.Publish(newest_, false);
    ASSERT_EQ(stats.status(), absl::OkStatus());
    EXPECT_EQ(publisher.leased_engines(), 2);
    EXPECT_GT(stats->fetch_ms, 0);
    EXPECT_TRUE(SameWeights(*one.engine.live(), *newest_) && SameWeights(*two.engine.live(), *newest_));
  }
  EXPECT_THAT(one.engine.log(), ElementsAre("full 0", "delta 1", "delta 2", "delta 3"));
  EXPECT_THAT(two.engine.log(), ElementsAre("full 0", "delta 1", "delta 2", "delta 3"));
}

TEST_P(FollowerTest, ALateJoinerTakesTheLastAnchorAndItsDeltas) {
  const std::shared_ptr<VersionWriter> writer = Writer(3);
  for (int i = 0; i < 5; ++i) Next(*writer);
  // The anchor is made beside: of version 3, the third delta after the first anchor, or of a later one.
  const auto live = [&] { return ParseLive(store_->Get(LiveKey(kRun), kMaxPointerBytes)->bytes, kRun).value(); };
  ASSERT_TRUE(Await([&] { return LastAnchor(live().newest()) > 0; }));
  const v1::VersionRoute route = live().newest();
  const HeldVersion anchor = FromName(route.steps(LastAnchor(route)).name());
  Process late(store_, "rollout-9");
  EXPECT_EQ(SinkOf(writer, "rollout-9")->Update(DeltaOf(nullptr, *newest_)).status(), absl::OkStatus());
  EXPECT_TRUE(SameWeights(*late.engine.live(), *newest_));
  EXPECT_THAT(late.engine.log(), ElementsAre("full 4"));  // restored beside, and swapped in once
  EXPECT_GE(anchor.version, 3);
}

TEST_P(FollowerTest, AnEngineThatLagsTakesTheDeltasThatItMissed) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  Process process(store_, "rollout-0");
  Next(*writer);
  ASSERT_TRUE(Await([&] { return process.engine.live() != nullptr; }));
  process.follower.reset();
  for (int i = 0; i < 3; ++i) Next(*writer);
  process.follower = Follower::Start(store_, process.engine, {.run = kRun, .engine = "rollout-0", .poll = 2ms}).value();
  ASSERT_TRUE(Await([&] { return process.engine.live()->version() == 3; }));
  EXPECT_TRUE(SameWeights(*process.engine.live(), *newest_));
  EXPECT_THAT(process.engine.log(), ElementsAre("full 0", "delta 1", "delta 2", "delta 3"));
}

TEST_P(FollowerTest, ObjectsThatNoRouteNamesAreRemoved) {
  const std::shared_ptr<VersionWriter> writer = Writer(2);
  const auto first_objects = [&] { return store_->List(VersionFolder(kRun, NameOf(*newest_)))->size(); };
  Next(*writer, true);
  const HeldVersion retained = NameOf(*newest_);
  Next(*writer);
  const HeldVersion second = NameOf(*newest_);
  EXPECT_GT(first_objects(), 0);
  const auto gone = [&](const HeldVersion& version) { return store_->List(VersionFolder(kRun, version))->empty(); };
  for (int i = 0; i < 40 && !gone(second); ++i) {
    Next(*writer);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_TRUE(Await([&] { return gone(second); }));
  EXPECT_FALSE(gone(retained)) << "a version to be retained stays";
  Process late(store_, "rollout-0");
  ASSERT_TRUE(
      Await([&] { return late.engine.live() != nullptr && late.engine.live()->version() == newest_->version(); }));
  EXPECT_TRUE(SameWeights(*late.engine.live(), *newest_));
  EXPECT_THAT(late.engine.retained(), ElementsAre(0));
}

TEST_P(FollowerTest, RetainedVersionsAreHeldUntilTheirRelease) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  Process process(store_, "rollout-0");
  const std::unique_ptr<Sink> sink = SinkOf(writer, "rollout-0");
  const auto zero = model_.Next(), one = model_.Next();
  ASSERT_TRUE(sink->Update(DeltaOf(nullptr, *zero)).ok());
  ASSERT_TRUE(sink->Update(DeltaOf(zero.get(), *zero, true)).ok());  // it is to be retained since it is live
  ASSERT_TRUE(sink->Update(DeltaOf(zero.get(), *one)).ok());
  EXPECT_THAT(process.engine.retained(), ElementsAre(0));
  EXPECT_THAT(*sink->HeldVersions(), ElementsAre(NameOf(*one), NameOf(*zero)));
  // An engine that comes later gets it beside, before the newest.
  Process late(store_, "rollout-1");
  const std::unique_ptr<Sink> late_sink = SinkOf(writer, "rollout-1");
  ASSERT_TRUE(late_sink->Update(DeltaOf(nullptr, *one)).ok());
  EXPECT_THAT(late.engine.log(), ElementsAre("beside 0", "full 1"));
  EXPECT_EQ(late_sink->Update(EncodeHeld(*zero).value()).status(), absl::OkStatus());
  EXPECT_EQ(sink->Release(0), absl::OkStatus());
  EXPECT_EQ(late_sink->Release(0), absl::OkStatus());
  EXPECT_THAT(process.engine.retained(), IsEmpty());
  EXPECT_THAT(late.engine.retained(), IsEmpty());
}

TEST_P(FollowerTest, AVersionIsHeldBesideBeforeThereIsANewest) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  Process process(store_, "rollout-0");
  const std::unique_ptr<Sink> sink = SinkOf(writer, "rollout-0");
  const auto zero = model_.Next(), one = model_.Next();
  EXPECT_EQ(sink->Update(EncodeHeld(*zero).value()).status(), absl::OkStatus());
  EXPECT_EQ(*sink->LiveVersion(), -1);
  EXPECT_EQ(sink->Update(DeltaOf(nullptr, *one)).status(), absl::OkStatus());
  EXPECT_THAT(process.engine.log(), ElementsAre("beside 0", "full 1"));
}

TEST_P(FollowerTest, AnEngineWithoutRoomSaysSo) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  Process process(store_, "rollout-0", 0);
  const std::unique_ptr<Sink> sink = SinkOf(writer, "rollout-0");
  const auto zero = model_.Next(), one = model_.Next();
  const auto kept = sink->Update(DeltaOf(nullptr, *zero, true));
  ASSERT_EQ(kept.status(), absl::OkStatus());
  EXPECT_TRUE(kept->not_retained());
  ASSERT_TRUE(sink->Update(DeltaOf(zero.get(), *one)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(sink->Update(EncodeHeld(*zero).value()).status()));
  EXPECT_EQ(*sink->LiveVersion(), 1);
}

TEST_P(FollowerTest, ADamagedDeltaIsToldAndHealedByAnAnchor) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  auto process = std::make_unique<Process>(store_, "rollout-0");
  const std::unique_ptr<Sink> sink = SinkOf(writer, "rollout-0");
  const auto zero = Next(*writer);
  ASSERT_TRUE(sink->Update(DeltaOf(nullptr, *zero)).ok());
  process->follower.reset();
  const auto one = Next(*writer);
  Damage(DeltaShard(*one));
  process->follower = Follower::Start(store_, process->engine,
                                      {.run = kRun, .engine = "rollout-0", .poll = 2ms, .heartbeat = 5ms, .retry = 5ms})
                          .value();
  const absl::Status reported = sink->Update(DeltaOf(zero.get(), *one)).status();
  EXPECT_TRUE(absl::IsDataLoss(reported)) << reported;
  EXPECT_THAT(std::string(reported.message()), HasSubstr(DeltaShard(*one)));
  EXPECT_EQ(process->engine.live()->version(), 0);
  EXPECT_EQ(sink->Update(DeltaOf(nullptr, *one)).status(), absl::OkStatus());
  EXPECT_TRUE(SameWeights(*process->engine.live(), *one));
}

TEST_P(FollowerTest, ObjectsThatAreCutShortMissingOrOfAnotherRunAreToldApart) {
  const std::shared_ptr<VersionWriter> writer = Writer();
  const auto zero = Next(*writer), one = Next(*writer);
  const auto load = [&](const std::string& run, const Snapshot& version, VersionKind kind) {
    int64_t bytes = 0;
    return LoadVersion(*store_, run, NameOf(version), kind, {}, &bytes).status();
  };
  EXPECT_EQ(load(kRun, *one, VersionKind::kDelta), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(load(kRun, *one, VersionKind::kAnchor)));
  const std::string shard = store_->Get(DeltaShard(*one), 1 << 20)->bytes;
  ASSERT_TRUE(store_->Put(DeltaShard(*one), shard.substr(0, shard.size() - 1)).ok());
  EXPECT_TRUE(absl::IsDataLoss(load(kRun, *one, VersionKind::kDelta)));
  ASSERT_TRUE(store_->Put(DeltaShard(*one), shard + "x").ok());
  EXPECT_TRUE(absl::IsDataLoss(load(kRun, *one, VersionKind::kDelta)));
  ASSERT_TRUE(store_->Delete(DeltaShard(*one)).ok());
  EXPECT_TRUE(absl::IsNotFound(load(kRun, *one, VersionKind::kDelta)));
  Damage(ManifestKey(kRun, NameOf(*zero), VersionKind::kAnchor));
  EXPECT_TRUE(absl::IsDataLoss(load(kRun, *zero, VersionKind::kAnchor)));
  // Objects of a run that were copied to another's place.
  ASSERT_TRUE(StoreVersion(*store_, "other", DeltaOf(nullptr, *zero), 1).ok());
  const std::vector<std::string> others = store_->List("other/versions/").value();
  for (const std::string& key : others) {
    const std::string copy = std::string(kRun) + key.substr(std::string("other").size());
    ASSERT_TRUE(store_->Put(copy, store_->Get(key, 1 << 20)->bytes).ok());
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(load(kRun, *zero, VersionKind::kAnchor)));
}

TEST_P(FollowerTest, EveryDamagedByteIsNoticed) {
  const auto zero = model_.Next();
  ASSERT_TRUE(StoreVersion(*store_, kRun, DeltaOf(nullptr, *zero), 2).ok());
  std::mt19937_64 rng(3);
  const std::vector<std::string> keys = store_->List(std::string(kRun) + "/versions/").value();
  for (const std::string& key : keys) {
    const std::string sound = store_->Get(key, 1 << 20)->bytes;
    for (int i = 0; i < 20; ++i) {
      std::string bytes = sound;
      bytes[rng() % bytes.size()] ^= static_cast<char>(1 << (rng() % 8));
      ASSERT_TRUE(store_->Put(key, bytes).ok());
      int64_t fetched = 0;
      EXPECT_TRUE(
          absl::IsDataLoss(LoadVersion(*store_, kRun, NameOf(*zero), VersionKind::kAnchor, {}, &fetched).status()))
          << key;
    }
    ASSERT_TRUE(store_->Put(key, sound).ok());
  }
}

TEST_P(FollowerTest, ALaterTrainerGoesOnAndTheEarlierOneIsRejected) {
  const std::shared_ptr<VersionWriter> earlier = Writer();
  const auto zero = Next(*earlier), one = Next(*earlier);
  const std::shared_ptr<VersionWriter> later = Writer();
  // It goes back to version 0, of which there is an anchor, and makes version 1 again with other weights.
  ASSERT_EQ(later->Publish(DeltaOf(nullptr, *zero), false).status(), absl::OkStatus());
  const absl::Status rejected = earlier->Publish(DeltaOf(one.get(), *model_.Next()), false).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("another trainer"));
  testing::Tensors other;
  other.Add("a", "F32", {1}, "1234");
  const auto again = other.TakeSnapshot(1);
  ASSERT_EQ(later->Publish(DeltaOf(zero.get(), *again), false).status(), absl::OkStatus());
  Process process(store_, "rollout-0");
  ASSERT_TRUE(SinkOf(later, "rollout-0")->Update(DeltaOf(nullptr, *again)).ok());
  EXPECT_TRUE(SameWeights(*process.engine.live(), *again));
}

TEST_P(FollowerTest, AnEarlierTrainerThatWasPausedRemovesNoObjectsOfTheLaterOne) {
  auto faulty = std::make_shared<FaultyStore>(store_);
  testing::Tensors other;
  other.Add("a", "F32", {1}, "1234");
  const auto again = other.TakeSnapshot(1);
  std::unique_ptr<VersionWriter> later;
  std::promise<void> taken_over;
  // The earlier one is paused before it lists the objects to be removed.
  faulty->on_list = [&] {
    if (later != nullptr) return;
    later = Writer();
    EXPECT_EQ(later->Publish(DeltaOf(nullptr, *again), false).status(), absl::OkStatus());
    taken_over.set_value();
  };
  const WriterOptions options{.run = kRun, .history = "h", .anchor_every = 1};
  auto earlier = VersionWriter::Open(faulty, options, [this] { return newest_; }).value();
  Next(*earlier);
  Next(*earlier);  // with an anchor, after which old objects are removed
  taken_over.get_future().wait();
  earlier.reset();  // once its removal has ended
  int64_t bytes = 0;
  EXPECT_EQ(LoadVersion(*store_, kRun, NameOf(*again), VersionKind::kAnchor, {}, &bytes).status(), absl::OkStatus());
}

TEST_P(FollowerTest, VersionsOfAnotherFormatAreRejectedByName) {
  const auto zero = Next(*Writer());
  const std::string live_key = LiveKey(kRun), manifest_key = ManifestKey(kRun, NameOf(*zero), VersionKind::kAnchor);
  const auto says_formats = [](const absl::Status& rejected) {
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("weight store format 2"));
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("has format 1"));
  };

  v1::VersionManifest manifest;
  const std::string object = store_->Get(manifest_key, 1 << 20)->bytes;
  ASSERT_TRUE(manifest.ParseFromString(object.substr(sizeof(uint64_t))));
  EXPECT_EQ(manifest.format(), 1);
  manifest.set_format(2);
  const std::string rest = manifest.SerializeAsString();
  const uint64_t checksum = base::Checksum64(rest);
  ASSERT_TRUE(
      store_->Put(manifest_key, std::string(reinterpret_cast<const char*>(&checksum), sizeof(checksum)) + rest).ok());
  int64_t fetched = 0;
  says_formats(LoadVersion(*store_, kRun, NameOf(*zero), VersionKind::kAnchor, {}, &fetched).status());

  v1::LiveVersions live = ParseLive(store_->Get(live_key, kMaxPointerBytes)->bytes, kRun).value();
  std::string text = PrintLive(live);
  ASSERT_NE(text.find("\"format\": 1"), std::string::npos) << text;
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");
  ASSERT_TRUE(store_->Put(live_key, text).ok());
  says_formats(VersionWriter::Open(store_, {.run = kRun, .history = "h"}, [] { return nullptr; }).status());
}

TEST_P(FollowerTest, AnotherRunOfTheNameIsRejected) {
  Next(*Writer());
  const auto opened = VersionWriter::Open(store_, {.run = kRun, .history = "another"}, [] { return nullptr; });
  EXPECT_TRUE(absl::IsFailedPrecondition(opened.status()));
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("run.name"));
}

TEST_P(FollowerTest, AnEngineOfTheRunsFolderTakesNoEarlierRunsVersions) {
  Next(*Writer(16, "earlier"));
  ApplyingEngine engine;
  const auto follower =
      Follower::Start(store_, engine, {.run = kRun, .history = "own", .engine = "rollout-0", .poll = 1ms}).value();
  // Long enough for many looks; a version that is taken makes the test fail, also on a slow machine.
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(engine.live(), nullptr);
  ASSERT_TRUE(store_->Delete(LiveKey(kRun)).ok());
  newest_ = nullptr;
  Next(*Writer(16, "own"));
  EXPECT_TRUE(Await([&] { return engine.live() != nullptr; }));
}

TEST_P(FollowerTest, AMoveWhoseAnswerWasLostIsNoOtherTrainers) {
  auto faulty = std::make_shared<FaultyStore>(store_);
  const auto writer = VersionWriter::Open(faulty, {.run = kRun, .history = "h"}, [] { return nullptr; }).value();
  const auto zero = model_.Next(), one = model_.Next();
  faulty->on_swapped = [] { return absl::UnavailableError("the answer was lost"); };
  EXPECT_TRUE(absl::IsUnavailable(writer->Publish(DeltaOf(nullptr, *zero), false).status()));
  faulty->on_swapped = nullptr;
  EXPECT_EQ(writer->Publish(DeltaOf(nullptr, *zero), false).status(), absl::OkStatus());
  EXPECT_EQ(writer->Publish(DeltaOf(zero.get(), *one), false).status(), absl::OkStatus());
}

TEST_P(FollowerTest, AVersionThatCouldNotBeStoredIsNotLive) {
  auto faulty = std::make_shared<FaultyStore>(store_);
  const auto writer =
      VersionWriter::Open(faulty, {.run = kRun, .history = "h", .shards = 2}, [] { return nullptr; }).value();
  const auto zero = model_.Next(), one = model_.Next();
  ASSERT_TRUE(writer->Publish(DeltaOf(nullptr, *zero), false).ok());
  faulty->on_put = [](const std::string& key) {
    return key.ends_with("shard-1") ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsResourceExhausted(writer->Publish(DeltaOf(zero.get(), *one), false).status()));
  EXPECT_FALSE(store_->Get(ManifestKey(kRun, NameOf(*one), VersionKind::kDelta), 1 << 20).ok());
  faulty->on_put = nullptr;
  EXPECT_EQ(writer->Publish(DeltaOf(zero.get(), *one), false).status(), absl::OkStatus());
}

TEST_P(FollowerTest, ASilentEngineIsGoneUntilItBeatsAgain) {
  base::ManualClock clock;
  const std::shared_ptr<VersionWriter> writer = Writer();
  const auto sink = NewObjectSink(writer, "rollout-0", {.silence = 10s}, clock).value();
  EXPECT_TRUE(absl::IsUnavailable(sink->LiveVersion().status()));  // it has never beaten
  Process process(store_, "rollout-0");
  EXPECT_EQ(sink->LiveVersion().value_or(-2), -1);
  Next(*writer);
  ASSERT_TRUE(Await([&] { return sink->LiveVersion().value_or(-2) == 0; }));
  process.follower.reset();
  EXPECT_TRUE(sink->LiveVersion().ok());
  clock.Advance(11s);
  const absl::Status silent = sink->LiveVersion().status();
  EXPECT_TRUE(absl::IsUnavailable(silent));
  EXPECT_THAT(std::string(silent.message()), HasSubstr("unresponsive"));
  Process again(store_, "rollout-0");
  EXPECT_TRUE(Await([&] { return sink->LiveVersion().value_or(-2) == 0; }));
}

TEST_P(FollowerTest, AnEngineThatMissesItsDeadlineComesBackAsALateJoiner) {
  // A deadline that a sound engine keeps, also on a machine with other work.
  Publisher publisher(Within(std::string(GetParam()) == "s3" ? 5s : 1s));
  const std::shared_ptr<VersionWriter> writer = Writer(2);
  Process sound(store_, "rollout-0");
  auto slow = std::make_unique<Process>(store_, "rollout-1");
  ASSERT_TRUE(publisher.AddEngine("rollout-0", SinkOf(writer, "rollout-0")).ok());
  ASSERT_TRUE(publisher.AddEngine("rollout-1", SinkOf(writer, "rollout-1")).ok());
  const auto publish = [&] {
    newest_ = model_.Next();
    return publisher.Publish(newest_, false);
  };
  ASSERT_TRUE(publish().ok());
  ASSERT_TRUE(Await([&] { return publisher.leased_engines() == 2; }));
  slow->follower.reset();  // its process stands still
  const auto stats = publish();
  ASSERT_EQ(stats.status(), absl::OkStatus());
  EXPECT_EQ(stats->leases_lost, 1);
  EXPECT_EQ(publisher.leased_engines(), 1);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(publish().ok());
  // It was started again, with nothing.
  slow = std::make_unique<Process>(store_, "rollout-1");
  EXPECT_TRUE(Await([&] {
    publisher.CheckLeases();
    return publisher.leased_engines() == 2;
  }));
  EXPECT_TRUE(SameWeights(*slow->engine.live(), *newest_));
  EXPECT_THAT(slow->engine.log(), ElementsAre("full 7"));
}

}  // namespace
}  // namespace ingot::weights
