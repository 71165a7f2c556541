// Faults of a run's inputs and outputs, through the trainer and its loop as a run uses them: a disk that fills up
// during a save, checkpoints of another shape, calls beyond the context, gradients that are not finite.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include "makers.h"
#include "temp_dir.h"
#include "tiny_model.h"
#include "trainer/loop.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TrainerOptions Options() {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  options.total_steps = 4;
  options.checkpoint_every = 1;
  options.keep_checkpoints = 10;
  options.threads = 1;
  return options;
}

std::unique_ptr<Trainer> Fresh(const TrainerOptions& options = Options()) {
  const auto config = TinyConfig();
  return *Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat));
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// A source of random batches and a sink that stores nothing; `spoil` changes a batch before it is trained.
class ShortRun final : public BatchSource, public VersionSink, public StepObserver {
 public:
  explicit ShortRun(const std::string& root, std::function<void(TrainBatch&)> spoil = nullptr)
      : spoil_(std::move(spoil)) {
    options_.checkpoint_root = root;
  }
  absl::Status Go(Trainer& trainer) { return TrainLoop(options_, trainer, *this, *this, this, nullptr).Run(); }

  absl::StatusOr<TrainBatch> Next(int64_t step) override {
    TrainBatch batch = RandomBatch(static_cast<uint64_t>(step + 1), 37, step);
    if (spoil_) spoil_(batch);
    return batch;
  }
  absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot, bool) override {
    published.push_back(std::move(snapshot));
    return weights::PublishStats{};
  }
  absl::Status OnCheckpoint(const CheckpointInfo&) override { return absl::OkStatus(); }
  absl::Status OnStep(const StepReport& report, const TrainBatch&) override {
    skipped += report.metrics.at("trainer/skipped") == 1;
    return absl::OkStatus();
  }

  std::vector<std::shared_ptr<const weights::Snapshot>> published;
  int skipped = 0;

 private:
  LoopOptions options_;
  const std::function<void(TrainBatch&)> spoil_;
};

bool HasLeftovers(const std::string& root) {
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().filename().string().starts_with(".")) return true;
  }
  return false;
}

// A file system of `bytes` bytes, for one thread of this process alone.
class SmallDisk {
 public:
  explicit SmallDisk(int64_t bytes) {
    made_ = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            mount("ingot-test", dir_.path().c_str(), "tmpfs", 0, absl::StrCat("size=", bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (made_) umount2(dir_.path().c_str(), MNT_DETACH);
  }
  bool made() const { return made_; }
  const std::string& path() const { return dir_.path(); }

 private:
  TempDir dir_;
  bool made_ = false;
};

int64_t BytesOf(const std::string& dir) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file()) bytes += (static_cast<int64_t>(entry.file_size()) + 4095) / 4096 * 4096;
  }
  return bytes;
}

// The disk takes two checkpoints and part of a third. The run ends with an error that says so. When there is room, it
// continues from the second checkpoint as if nothing had happened.
TEST(FullDisk, EndsTheRunWithItsLastCheckpointsIntact) {
  TempDir roomy;
  auto whole = Fresh();
  ASSERT_TRUE(ShortRun(roomy.path()).Go(*whole).ok());
  const int64_t one = BytesOf(roomy.path() + "/" + CheckpointName(1));

  const SmallDisk disk(2 * one + one / 2);
  if (!disk.made()) GTEST_SKIP() << "a file system of its own needs the right to mount one";
  auto trainer = Fresh();
  const absl::Status status = ShortRun(disk.path()).Go(*trainer);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("step 3: cannot write checkpoint " + disk.path() + "/step-00000003"),
                                       HasSubstr("No space left"), HasSubstr("the earlier ones are untouched")));
  EXPECT_FALSE(HasLeftovers(disk.path()));
  const auto latest = LatestCheckpoint(disk.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 2);
  EXPECT_TRUE(latest->rejected.empty());

  auto resumed = Trainer::Resume(Options(), latest->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_TRUE(ShortRun(roomy.path()).Go(**resumed).ok());
  EXPECT_EQ((*(*resumed)->TakeSnapshot())->checksum(), (*whole->TakeSnapshot())->checksum());
}

// Each file of a checkpoint in turn cannot be finished. A limit on file sizes fails in the same calls as a full disk,
// and any user may set such a limit.
TEST(FullDisk, NoFileOfACheckpointMayBeCutShort) {
  TempDir dir;
  auto trainer = Fresh();
  const auto saved = trainer->SaveCheckpoint(dir.path(), {{"notes.txt", std::string(100, 'x')}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  std::set<uintmax_t> sizes;
  for (const auto& entry : fs::directory_iterator(saved->path)) sizes.insert(entry.file_size());
  ASSERT_GE(sizes.size(), 4u);

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const uintmax_t size : sizes) {
    const rlimit tight{size - 1, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const auto not_loaded = trainer->SaveCheckpoint(dir.path(), {{"notes.txt", std::string(100, 'x')}});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(not_loaded.ok()) << size;
    EXPECT_THAT(MessageOf(not_loaded.status()), AllOf(HasSubstr("step-00000001"), HasSubstr("File too large")));
    EXPECT_FALSE(HasLeftovers(dir.path())) << size;
    EXPECT_EQ(LatestCheckpoint(dir.path())->step, 0) << size;
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(trainer->SaveCheckpoint(dir.path(), {}).ok());
}

// Intact files with the tensors of another model: the digests agree, and the shapes are checked all the same.
TEST(MismatchedCheckpoint, NamesTheTensor) {
  TempDir dir;
  const auto fresh = Fresh();
  const auto saved = fresh->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  CheckpointContents sound = *ReadCheckpoint(saved->path);
  sound.optimizer = fresh->optimizer_state();
  const auto not_loaded = [&](const std::function<void(CheckpointContents&)>& change) {
    CheckpointContents other = sound;
    other.step = 1;
    change(other);
    const auto written = WriteCheckpoint(dir.path(), other, {}, 10);
    EXPECT_TRUE(written.ok()) << written.status();
    return MessageOf(Trainer::Resume(Options(), written->path).status());
  };
  EXPECT_EQ(not_loaded([](CheckpointContents&) {}), "");
  EXPECT_THAT(not_loaded([](CheckpointContents& c) { c.optimizer["exp_avg.model.norm.weight"] = at::zeros({17}); }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("exp_avg.model.norm.weight"), HasSubstr("shape")));
  EXPECT_THAT(not_loaded([](CheckpointContents& c) { c.optimizer.erase("exp_avg_sq.model.norm.weight"); }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("lacks exp_avg_sq.model.norm.weight")));
  EXPECT_THAT(not_loaded([](CheckpointContents& c) { c.optimizer["exp_avg.other"] = at::zeros({16}); }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("unknown optimizer state exp_avg.other")));
  EXPECT_THAT(not_loaded([](CheckpointContents& c) { c.config.intermediate_size = 48; }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("mlp")));
  EXPECT_THAT(not_loaded([](CheckpointContents& c) { c.config.num_hidden_layers = 3; }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("model.layers.2")));
  EXPECT_THAT(not_loaded([](CheckpointContents& c) {
                for (auto& [name, tensor] : c.parameters.tensors()) tensor = tensor + 1;
              }),
              AllOf(HasSubstr("step-00000001"), HasSubstr("its weights do not match the checksum")));
}

TEST(Context, ACallBeyondItEndsTheStepBeforeAnythingIsTrained) {
  auto trainer = Fresh();
  const int64_t limit = trainer->config().max_position_embeddings;
  const auto before = (*trainer->TakeSnapshot())->checksum();
  const auto status = ShortRun("", [&](TrainBatch& batch) {
                        CallSpec call;
                        call.context.assign(static_cast<size_t>(limit), 1);
                        call.sampled = {2, 3};
                        call.logprobs = {-1, -1};
                        batch.groups.push_back(MakeGroup(77, {MakeEpisode("long", 1.0, {call})}));
                      }).Go(*trainer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("step 0"), HasSubstr("call long/0"), HasSubstr("130 tokens"),
                                       HasSubstr("context length is 128")));
  EXPECT_EQ((*trainer->TakeSnapshot())->checksum(), before);

  tree::CallPath conversation;
  conversation.call_id = "conversation 9";
  conversation.context = tree::TokenPath({1});
  conversation.sampled.assign(static_cast<size_t>(limit), 1);
  EXPECT_THAT(MessageOf(trainer->RunSft({conversation}, nullptr)),
              AllOf(HasSubstr("conversation 9"), HasSubstr("context length is 128")));
  EXPECT_EQ((*trainer->TakeSnapshot())->checksum(), before);
}

TEST(EmptyBatch, WithoutGroupsIsAnErrorAndWithoutLossASkippedStep) {
  auto trainer = Fresh();
  const absl::Status none = ShortRun("", [](TrainBatch& batch) { batch.groups.clear(); }).Go(*trainer);
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(none), AllOf(HasSubstr("step 0"), HasSubstr("has no groups")));
  EXPECT_EQ(trainer->version(), 0);

  TempDir dir;
  ShortRun failed(dir.path(), [](TrainBatch& batch) {
    if (batch.step != 1) return;
    for (v1::Group& group : batch.groups) {
      for (v1::EpisodeTree& tree : *group.mutable_episodes()) tree.mutable_episode()->set_state(v1::EPISODE_FAILED);
    }
  });
  ASSERT_TRUE(failed.Go(*trainer).ok());
  EXPECT_EQ(failed.skipped, 1);
  ASSERT_EQ(failed.published.size(), 5u);  // the start version and one per step, skipped or not
  EXPECT_NE(failed.published[0]->checksum(), failed.published[1]->checksum());
  EXPECT_EQ(failed.published[1]->checksum(), failed.published[2]->checksum());
  EXPECT_NE(failed.published[2]->checksum(), failed.published[3]->checksum());
  EXPECT_EQ(LatestCheckpoint(dir.path())->step, 4);
}

// A batch whose loss overflows loses its step and nothing else. One too many in a row ends the run, whose last
// checkpoint has finite weights.
TEST(NotFinite, AStepIsSkippedAndARowOfThemEndsTheRun) {
  TrainerOptions options = Options();
  options.objective = "ppo_clip";
  options.advantage_baseline = "none";
  options.max_skipped_steps = 1;
  const auto overflowing = [](int64_t from, int64_t to) {
    return [from, to](TrainBatch& batch) {
      if (batch.step < from || batch.step >= to) return;
      v1::EpisodeTree& tree = *batch.groups[1].mutable_episodes(2);
      tree.mutable_episode()->set_reward(-1);
      for (auto& [key, segment] : *tree.mutable_segments()) {
        if (segment.source() == v1::SOURCE_SAMPLED) segment.set_logprobs(0, -500);  // a ratio of 1e217
      }
    };
  };
  TempDir dir;
  auto trainer = Fresh(options);
  ShortRun one(dir.path(), overflowing(1, 2));
  ASSERT_TRUE(one.Go(*trainer).ok());
  EXPECT_EQ(one.skipped, 1);
  EXPECT_EQ(one.published[1]->checksum(), one.published[2]->checksum());

  TempDir other;
  trainer = Fresh(options);
  ShortRun row(other.path(), overflowing(2, 4));
  const absl::Status status = row.Go(*trainer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("step 3"), HasSubstr("after 1 consecutive skipped steps"),
                                       HasSubstr("g1s2/0"), HasSubstr("elements of its gradient")));
  const auto latest = LatestCheckpoint(other.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 3);  // after the skipped step: the weights of step 2
  EXPECT_EQ(latest->weights_checksum, row.published[2]->checksum());
}

}  // namespace
}  // namespace ingot::trainer
