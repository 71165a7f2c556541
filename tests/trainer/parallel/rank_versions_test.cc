// Versions that the ranks of a trainer store, each what it owns, and engines that fetch them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "../makers.h"
#include "../temp_dir.h"
#include "../tiny_kinds.h"
#include "rank_group.h"
#include "together.h"
#include "trainer/trainer.h"
#include "weights/applying_engine.h"
#include "weights/publisher.h"
#include "weights/stores/directory_store.h"
#include "weights/stores/faulty_store.h"
#include "weights/stores/follower.h"
#include "weights/stores/object_sink.h"
#include "weights/stores/version_writer.h"

namespace ingot::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using weights::testing::ApplyingEngine;
using weights::testing::FaultyStore;
using namespace std::chrono_literals;

constexpr char kRun[] = "run-1";
constexpr int kRanks = 3;

// An engine's process.
struct Process {
  Process(const std::string& folder, const std::string& name) {
    weights::FollowerOptions options{.run = kRun, .engine = name, .poll = 2ms, .heartbeat = 5ms, .retry = 5ms};
    follower = *weights::Follower::Start(*weights::OpenDirectoryStore(folder), engine, options);
  }
  ApplyingEngine engine;
  std::unique_ptr<weights::Follower> follower;
};

// Rank 0's side of a run.
struct Versions {
  explicit Versions(const std::string& folder, int anchor_every = 16)
      : publisher([] {
          weights::PublisherOptions options;
          options.deadline = 30s;
          return options;
        }()) {
    weights::WriterOptions options{.run = kRun, .history = "h", .rank_shards = true, .anchor_every = anchor_every};
    writer = *weights::VersionWriter::Open(*weights::OpenDirectoryStore(folder), options, [] { return nullptr; });
  }
  void Add(const std::string& engine) {
    auto sink = weights::NewObjectSink(writer, engine, {.deadline = 30s, .poll = 2ms});
    ASSERT_TRUE(publisher.AddEngine(engine, *std::move(sink)).ok());
  }
  // Stores and publishes the trainer's version.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Publish(Trainer& trainer, bool retain = false) {
    INGOT_ASSIGN_OR_RETURN(const auto version, trainer.StoreVersion(writer->newest(), writer->AnchorDue()));
    INGOT_ASSIGN_OR_RETURN(stats, publisher.Publish(version, retain));
    return version;
  }

  std::shared_ptr<weights::VersionWriter> writer;
  weights::Publisher publisher;
  weights::PublishStats stats;
};

// What the engine has of the parameters that are on this rank.
void ExpectHas(ApplyingEngine& engine, const Trainer& trainer, const weights::Snapshot& version) {
  const auto live = engine.live();
  ASSERT_NE(live, nullptr);
  EXPECT_EQ(live->version(), trainer.version());
  EXPECT_EQ(live->checksum(), version.checksum());
  EXPECT_EQ(live->size(), trainer.parameters().tensors().size());
  for (size_t i = 0; i < live->size(); ++i) {
    const at::Tensor& parameter = trainer.parameters().tensors().at(live->view(i).name);
    if (!IsHere(parameter)) continue;
    EXPECT_EQ(std::memcmp(parameter.const_data_ptr(), live->bytes(i).data(), parameter.nbytes()), 0)
        << live->view(i).name;
  }
}

TrainBatch BatchOf(int64_t step) { return RandomBatch(static_cast<uint64_t>(100 + step), 37, step); }

// Rank 0 runs `lead`; `adapt` may change a rank's store.
void OnStoringRanks(const TrainerOptions& options, const std::string& folder, const std::function<void(Trainer&)>& lead,
                    const std::function<void(int rank, FaultyStore&)>& adapt = nullptr,
                    std::vector<std::map<std::string, int64_t>>* written = nullptr,
                    const model::ModelConfig& config = TinyConfig()) {
  std::mutex mu;
  if (written != nullptr) written->resize(kRanks);
  OnRanks(kRanks, [&](Ranks& ranks) {
    const auto store = std::make_shared<FaultyStore>(*weights::OpenDirectoryStore(folder));
    std::map<std::string, int64_t> sizes;  // of what this rank writes, by key
    store->on_stored = [&sizes](const std::string& key, int64_t bytes) { sizes[key] = bytes; };
    if (adapt) adapt(ranks.rank(), *store);
    auto trainer = *Trainer::Create(options, config, TinyParameters(config, ranks.leads() ? 2 : 77, at::kFloat),
                                    base::Clock::Real(), &ranks);
    trainer->StoreVersionsIn({.store = store, .run = kRun, .codec = {}});
    if (ranks.leads()) {
      lead(*trainer);
      EXPECT_TRUE(trainer->Dismiss().ok());
    } else {
      const absl::Status followed = trainer->Follow();
      EXPECT_TRUE(followed.ok()) << followed;
    }
    const std::lock_guard<std::mutex> lock(mu);
    if (written != nullptr) (*written)[static_cast<size_t>(ranks.rank())] = sizes;
  });
}

class RankVersions : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  TrainerOptions Options() const {
    TrainerOptions options = Plain();
    std::tie(options.sharding, options.dtype) = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Shardings, RankVersions,
                         ::testing::Values(std::pair("optimizer", "bf16"), std::pair("layers", "bf16"),
                                           std::pair("optimizer", "fp32"), std::pair("layers", "fp32")),
                         [](const auto& info) { return std::string(info.param.first) + "_" + info.param.second; });

TEST_P(RankVersions, EachRankStoresWhatItOwns) {
  TempDir folder, checkpoints;
  const std::string store = folder.path() + "/store";
  std::vector<std::map<std::string, int64_t>> written;
  int64_t all = 0;
  OnStoringRanks(
      Options(), store,
      [&](Trainer& trainer) {
        Process one(store, "rollout-0"), late(store, "rollout-1");
        Versions versions(store, /*anchor_every=*/3);
        versions.Add("rollout-0");
        std::shared_ptr<const weights::Snapshot> version;
        for (int64_t step = 0; step < 6; ++step) {
          if (step > 0) {
            ASSERT_TRUE(trainer.TrainStep(BatchOf(step - 1)).ok());
          }
          const auto published = versions.Publish(trainer);
          ASSERT_TRUE(published.ok()) << published.status();
          version = *published;
          EXPECT_FALSE(version->here());
          ExpectHas(one.engine, trainer, *version);
          EXPECT_GT(versions.stats.wire_bytes, 0);
          EXPECT_GT(versions.stats.density, 0);
        }
        all = version->total_bytes();
        EXPECT_THAT(one.engine.log(), ElementsAre("full 0", "delta 1", "delta 2", "delta 3", "delta 4", "delta 5"));
        versions.Add("rollout-1");  // restores the anchor of version 3 and its deltas
        ASSERT_TRUE(versions.publisher.Publish(version, true).ok());
        ExpectHas(late.engine, trainer, *version);
        EXPECT_THAT(one.engine.retained(), ElementsAre(5));
        const auto saved = trainer.SaveCheckpoint(checkpoints.path(), {});
        ASSERT_TRUE(saved.ok()) << saved.status();
        EXPECT_EQ(saved->weights_checksum, version->checksum());
        auto resumed = Trainer::Resume(Options(), saved->path);
        EXPECT_TRUE(resumed.ok()) << resumed.status() << ": the checksum is that of the weights as a whole";
      },
      nullptr, &written);
  for (int rank = 0; rank < kRanks; ++rank) {
    int64_t anchors = 0;
    for (const auto& [key, bytes] : written[static_cast<size_t>(rank)]) {
      EXPECT_THAT(key, EndsWith(absl::StrCat("/shard-", rank)));
      anchors += key.find("/anchor/") == std::string::npos ? 0 : bytes;
    }
    EXPECT_EQ(written[static_cast<size_t>(rank)].size(), 6u + 1u) << "version 3 twice: as a delta and as an anchor";
    EXPECT_GT(anchors, 0);
    EXPECT_LT(anchors, 2 * all * 6 / 10) << "of two anchors";
  }
}

TEST_P(RankVersions, OfAdaptersHaveTheFrozenBase) {
  TempDir folder, checkpoints;
  const std::string store = folder.path() + "/store";
  OnStoringRanks(
      Options(), store,
      [&](Trainer& trainer) {
        Process one(store, "rollout-0");
        Versions versions(store);
        versions.Add("rollout-0");
        for (int64_t step = 0; step < 3; ++step) {
          if (step > 0) {
            ASSERT_TRUE(trainer.TrainStep(BatchOf(step - 1)).ok());
          }
          const auto version = versions.Publish(trainer);
          ASSERT_TRUE(version.ok()) << version.status();
          ExpectHas(one.engine, trainer, **version);
        }
        const auto saved = trainer.SaveCheckpoint(checkpoints.path(), {});
        ASSERT_TRUE(saved.ok()) << saved.status();
        EXPECT_TRUE(Trainer::Resume(Options(), saved->path).ok());
      },
      nullptr, nullptr, AdaptedConfig());
}

TEST_P(RankVersions, AStoreThatFailsOnOneRankIsTriedAgain) {
  TempDir folder;
  const std::string store = folder.path() + "/store";
  int failures = 2;
  OnStoringRanks(
      Options(), store,
      [&](Trainer& trainer) {
        Process one(store, "rollout-0");
        Versions versions(store);
        versions.Add("rollout-0");
        ASSERT_TRUE(versions.Publish(trainer).ok());
        ASSERT_TRUE(trainer.TrainStep(BatchOf(0)).ok());
        for (int i = 0; i < 2; ++i) {
          const auto failed = versions.Publish(trainer);
          EXPECT_TRUE(absl::IsUnavailable(failed.status())) << failed.status();
          EXPECT_EQ(versions.writer->newest().version, 0) << "live stays where it was";
        }
        const auto version = versions.Publish(trainer);
        ASSERT_TRUE(version.ok()) << version.status();
        ExpectHas(one.engine, trainer, **version);
        EXPECT_THAT(one.engine.log(), ElementsAre("full 0", "delta 1"));
      },
      [&](int rank, FaultyStore& faulty) {
        if (rank != 2) return;
        faulty.on_put = [&failures](const std::string& key) -> absl::Status {
          if (key.find("0000000001-") == std::string::npos || failures == 0) return absl::OkStatus();
          --failures;
          return absl::UnavailableError("no store");
        };
      });
}

TEST(RankVersionsOfBf16, ASkippedStepIsAVersionToo) {
  TempDir folder;
  const std::string store = folder.path() + "/store";
  TrainerOptions options = Plain();
  options.dtype = "bf16";
  options.train_segments = "current_version";
  OnStoringRanks(options, store, [&](Trainer& trainer) {
    Process one(store, "rollout-0");
    Versions versions(store);
    versions.Add("rollout-0");
    ASSERT_TRUE(versions.Publish(trainer).ok());
    ASSERT_TRUE(trainer.TrainStep(BatchOf(0)).ok());
    ASSERT_TRUE(versions.Publish(trainer).ok());
    TrainBatch old = RandomBatch(5, 37, 0);  // no token of version 1
    old.step = 1;
    const auto skipped = trainer.TrainStep(old);
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    ASSERT_EQ(skipped->metrics.at("trainer/skipped"), 1);
    const auto version = versions.Publish(trainer);
    ASSERT_TRUE(version.ok()) << version.status();
    EXPECT_EQ(versions.stats.density, 0);
    ExpectHas(one.engine, trainer, **version);
  });
}

}  // namespace
}  // namespace ingot::trainer
