#include "trainer/checkpoints/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "../makers.h"
#include "../temp_dir.h"
#include "../tiny_kinds.h"
#include "../tiny_model.h"
#include "trainer/checkpoints/checkpoint_copy.h"
#include "trainer/trainer.h"

namespace ingot::trainer::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrainerOptions Options(int threads = 1) {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  options.optimizer.warmup_steps = 2;
  options.optimizer.weight_decay = 0.1;
  options.total_steps = 8;
  options.threads = threads;
  options.seed = 18446744073709551615ull;
  return options;
}

std::unique_ptr<Trainer> Fresh(int threads = 1) {
  const auto config = TinyConfig();
  return *Trainer::Create(Options(threads), config, TinyParameters(config, 2, at::kFloat));
}

void Train(Trainer& trainer, int64_t until) {
  while (trainer.version() < until) {
    const int64_t step = trainer.version();
    const auto report = trainer.TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step));
    ASSERT_TRUE(report.ok()) << report.status();
  }
}

void ExpectSameBits(const Trainer& a, const Trainer& b) {
  for (const auto& [name, tensor] : a.parameters().tensors()) {
    EXPECT_TRUE(at::equal(tensor, b.parameters().at(name))) << name;
  }
  const auto state = b.optimizer_state();
  for (const auto& [name, tensor] : a.optimizer_state()) EXPECT_TRUE(at::equal(tensor, state.at(name))) << name;
}

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteAll(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

std::vector<std::string> Names(const std::string& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void ResumeInTheMiddle(const TrainerOptions& options, const model::ModelConfig& config, int64_t middle, int64_t end) {
  TempDir dir;
  const auto fresh = [&] { return *Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat)); };
  auto whole = fresh();
  Train(*whole, end);

  auto first = fresh();
  Train(*first, middle);
  const auto saved = first->SaveCheckpoint(dir.path(), {{"tokenizer.json", "{}"}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->step, middle);
  Train(*first, end);  // saving does not change the run that saves
  ExpectSameBits(*whole, *first);

  auto second = Trainer::Resume(options, saved->path);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->version(), middle);
  EXPECT_EQ((*(*second)->TakeSnapshot())->checksum(), saved->weights_checksum);
  Train(**second, end);
  ExpectSameBits(*whole, **second);
  EXPECT_EQ((*(*second)->TakeSnapshot())->checksum(), (*whole->TakeSnapshot())->checksum());
}

TEST(Checkpoint, ResumingInTheMiddleChangesNoBit) { ResumeInTheMiddle(Options(), TinyConfig(), 4, 7); }
TEST(Checkpoint, ResumingInTheMiddleChangesNoBitOnTwoThreads) { ResumeInTheMiddle(Options(2), TinyConfig(), 1, 3); }

class CheckpointOf : public ::testing::TestWithParam<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CheckpointOf, ::testing::ValuesIn(TinyKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CheckpointOf, ResumingInTheMiddleChangesNoBit) {
  TrainerOptions options = Options();
  options.expert_bias_rate = GetParam().expert_bias_rate;
  ResumeInTheMiddle(options, GetParam().config, 2, 4);
  options.dtype = "bf16";
  ResumeInTheMiddle(options, GetParam().config, 2, 3);
}

TEST(Checkpoint, IsAModelFolderWithTheAppsFiles) {
  TempDir dir;
  auto trainer = Fresh();
  const auto saved = trainer->SaveCheckpoint(dir.path() + "/deep/checkpoints", {{"tokenizer.json", "{\"a\": 1}"}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, dir.path() + "/deep/checkpoints/step-00000000");
  EXPECT_THAT(Names(saved->path),
              ElementsAre("config.json", "model.safetensors", "optimizer.safetensors", "state.json", "tokenizer.json"));
  EXPECT_EQ(ReadAll(saved->path + "/tokenizer.json"), "{\"a\": 1}");
  const auto model = model::LoadModelDir(saved->path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(at::equal(model->parameters.at("model.norm.weight"), trainer->parameters().at("model.norm.weight")));
}

TEST(Checkpoint, KeepsFilesOfOneFolderWithin) {
  TempDir dir;
  auto trainer = Fresh();
  const std::string name = "additional_chat_templates/tool_use.jinja";
  const auto saved = trainer->SaveCheckpoint(dir.path(), {{name, "tools"}, {"chat_template.jinja", "x"}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(ReadAll(saved->path + "/" + name), "tools");
  EXPECT_TRUE(VerifyCheckpoint(saved->path).ok());
  EXPECT_TRUE(model::LoadModelDir(saved->path).ok());
  WriteAll(saved->path + "/" + name, "other");
  EXPECT_THAT(std::string(VerifyCheckpoint(saved->path).status().message()), HasSubstr(name));
  for (const char* outside : {"../a", "a/../b", "a/b/c", "/a", "a/", ".a", "a/.b", ""}) {
    EXPECT_EQ(trainer->SaveCheckpoint(dir.path(), {{outside, "x"}}).status().code(), absl::StatusCode::kInvalidArgument)
        << outside;
  }
}

TEST(Checkpoint, KeepsTheNewestAndSweepsLeftovers) {
  TempDir dir;
  auto trainer = Fresh();
  fs::create_directories(dir.path() + "/.tmp-step-00000099");
  fs::create_directories(dir.path() + "/notes");
  for (int64_t step = 0; step < 4; ++step) {
    Train(*trainer, step);
    ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {}).ok());
  }
  EXPECT_THAT(Names(dir.path()), ElementsAre("notes", "step-00000002", "step-00000003"));
}

TEST(Checkpoint, MultiplesOfKeepEveryStayBesideTheNewest) {
  TempDir dir;
  CheckpointContents contents;
  contents.config = TinyConfig();
  contents.parameters = TinyParameters(contents.config, 1, at::kFloat);
  contents.optimizer["exp_avg.model.norm.weight"] = at::zeros({16});
  const auto save = [&](int64_t step, int64_t keep_every) {
    contents.step = step;
    contents.keep_every = keep_every;
    EXPECT_TRUE(WriteCheckpoint(dir.path(), contents, {}, 2).ok());
  };
  for (int64_t step = 0; step <= 8; ++step) save(step, 3);
  EXPECT_THAT(Names(dir.path()),
              ElementsAre("step-00000000", "step-00000003", "step-00000006", "step-00000007", "step-00000008"));
  save(9, 0);  // the next save of a run without the key
  EXPECT_THAT(Names(dir.path()), ElementsAre("step-00000008", "step-00000009"));
}

TEST(Checkpoint, ASecondOneOfTheSameStepTakesItsPlace) {
  TempDir dir;
  auto trainer = Fresh();
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {{"a.txt", "old"}}).ok());
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {{"a.txt", "new"}}).ok());
  EXPECT_THAT(Names(dir.path()), ElementsAre("step-00000000"));
  EXPECT_EQ(ReadAll(dir.path() + "/step-00000000/a.txt"), "new");
  EXPECT_TRUE(VerifyCheckpoint(dir.path() + "/step-00000000").ok());
}

TEST(Checkpoint, DamageIsFoundAndThePreviousOneUsed) {
  TempDir dir;
  auto trainer = Fresh();
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {{"tokenizer.json", "{}"}}).ok());
  Train(*trainer, 1);
  const auto newest = trainer->SaveCheckpoint(dir.path(), {{"tokenizer.json", "{}"}});
  ASSERT_TRUE(newest.ok());
  ASSERT_EQ(LatestCheckpoint(dir.path())->step, 1);

  for (const std::string& name : Names(newest->path)) {
    const std::string path = newest->path + "/" + name;
    const std::string intact = ReadAll(path);
    const auto expect_rejected = [&](const std::string& how) {
      const auto latest = LatestCheckpoint(dir.path());
      ASSERT_TRUE(latest.ok()) << latest.status();
      EXPECT_EQ(latest->step, 0) << name << " " << how;
      ASSERT_EQ(latest->rejected.size(), 1u);
      EXPECT_THAT(latest->rejected[0],
                  ::testing::AllOf(HasSubstr("step-00000001"), HasSubstr("damaged"), HasSubstr(name)))
          << how;
      EXPECT_EQ(Trainer::Resume(Options(), newest->path).status().code(), absl::StatusCode::kDataLoss);
    };
    fs::remove(path);
    expect_rejected("missing");
    WriteAll(path, intact.substr(0, intact.size() / 2));
    expect_rejected("cut short");
    std::string flipped = intact;
    flipped[flipped.size() - 2] ^= 4;
    WriteAll(path, flipped);
    expect_rejected("a bit flipped");
    WriteAll(path, intact);
    EXPECT_EQ(LatestCheckpoint(dir.path())->step, 1);
  }
}

// Whoever serves or evaluates a checkpoint reads no optimizer, and need not copy it.
TEST(Checkpoint, DamageIsFoundByThoseWhoLoadItAsAModel) {
  TempDir dir;
  auto trainer = Fresh();
  const auto saved = trainer->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  for (const std::string name : {"config.json", "model.safetensors", "state.json", "optimizer.safetensors"}) {
    const std::string path = saved->path + "/" + name, intact = ReadAll(path);
    for (const size_t at : {size_t{1}, size_t{20}, intact.size() / 2, intact.size() - 2}) {
      std::string flipped = intact;
      flipped[at] ^= 4;
      WriteAll(path, flipped);
      const absl::Status loaded = model::LoadModelDir(saved->path).status();
      if (name == "optimizer.safetensors") {
        EXPECT_TRUE(loaded.ok()) << loaded;
        continue;
      }
      EXPECT_EQ(loaded.code(), absl::StatusCode::kDataLoss) << name << " byte " << at << " " << loaded;
      EXPECT_THAT(std::string(loaded.message()), HasSubstr(path + " is damaged"));
    }
    WriteAll(path, intact);
  }
  fs::remove(saved->path + "/optimizer.safetensors");
  EXPECT_TRUE(model::LoadModelDir(saved->path).ok());
  fs::remove(saved->path + "/model.safetensors");
  EXPECT_THAT(std::string(model::LoadModelDir(saved->path).status().message()),
              HasSubstr("model.safetensors, which state.json next to it lists with"));
}

// Names and numbers in state.json are as much a part of the checkpoint as its tensors.
TEST(Checkpoint, AnyFlippedBitOfItsStateIsFoundAndThePreviousOneUsed) {
  TempDir dir;
  auto trainer = Fresh();
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {}).ok());
  Train(*trainer, 1);
  const auto newest = trainer->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(newest.ok()) << newest.status();
  const std::string path = newest->path + "/state.json", intact = ReadAll(path);
  for (size_t bit = 0; bit < 8 * intact.size(); ++bit) {
    std::string flipped = intact;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    WriteAll(path, flipped);
    ASSERT_EQ(VerifyCheckpoint(newest->path).status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
  for (const char* name : {"format", "step", "seed", "weights_checksum", "optimizer_steps", "optimizer_shards",
                           "schedule", "learning_rate", "files", "model.safetensors", "bytes"}) {
    std::string damaged = intact;
    damaged[damaged.find(std::string("\"") + name + "\"") + 1] ^= 1;
    WriteAll(path, damaged);
    const auto latest = LatestCheckpoint(dir.path());
    ASSERT_TRUE(latest.ok()) << name << latest.status();
    EXPECT_EQ(latest->step, 0) << name;
    EXPECT_TRUE(Trainer::Resume(Options(), latest->path).ok());
  }
  WriteAll(path, intact);
  EXPECT_EQ(LatestCheckpoint(dir.path())->step, 1);
}

// Whoever takes a newer binary to an older run is told why, and how the weights still serve.
TEST(Checkpoint, OfAnotherFormatSaysSo) {
  TempDir dir;
  auto trainer = Fresh();
  const auto saved = trainer->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::string path = saved->path + "/state.json", format = "ingot-checkpoint-";
  std::string text = ReadAll(path);
  const size_t number = text.find(format) + format.size();
  for (const char other : {'2', '5', '9'}) {
    text[number] = other;
    WriteAll(path, text);
    EXPECT_THAT(std::string(Trainer::Resume(Options(), saved->path).status().message()),
                ::testing::AllOf(HasSubstr(format + other), HasSubstr("has format ingot-checkpoint-4"),
                                 HasSubstr("model.path")));
  }
}

TEST(Checkpoint, InAFolderOfAnotherStepIsPassedOver) {
  TempDir dir;
  auto trainer = Fresh();
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {}).ok());
  fs::copy(dir.path() + "/step-00000000", dir.path() + "/step-00000007");
  const auto latest = LatestCheckpoint(dir.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 0);
  EXPECT_THAT(latest->rejected, ElementsAre(HasSubstr("state.json says step 0")));
}

TEST(Checkpoint, AFolderWithoutAnIntactOneIsAnError) {
  TempDir dir;
  EXPECT_EQ(LatestCheckpoint(dir.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LatestCheckpoint(dir.path() + "/absent").status().code(), absl::StatusCode::kNotFound);
  fs::create_directories(dir.path() + "/step-00000005");
  EXPECT_EQ(LatestCheckpoint(dir.path()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Checkpoint, AFailedWriteNamesThePathAndLeavesTheOthers) {
  TempDir dir;
  auto trainer = Fresh();
  ASSERT_TRUE(trainer->SaveCheckpoint(dir.path(), {}).ok());
  Train(*trainer, 1);
  // A folder cannot be made below a file.
  WriteAll(dir.path() + "/file", "x");
  EXPECT_THAT(std::string(trainer->SaveCheckpoint(dir.path() + "/file/root", {}).status().message()),
              HasSubstr("/file/root"));
  EXPECT_FALSE(trainer->SaveCheckpoint(dir.path(), {{"../escape", "x"}}).ok());
  EXPECT_FALSE(trainer->SaveCheckpoint(dir.path(), {{"state.json", "x"}}).ok());
  EXPECT_EQ(LatestCheckpoint(dir.path())->step, 0);
}

TEST(CheckpointCopy, ContinuesTheSameWeightsUnderAnotherStep) {
  TempDir dir;
  auto trainer = Fresh();
  Train(*trainer, 2);
  const auto saved = trainer->SaveCheckpoint(dir.path() + "/checkpoints", {{"tokenizer.json", "{}"}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  Train(*trainer, 4);
  const auto copied = CopyCheckpoint(saved->path, dir.path() + "/candidate", 5);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(copied->path, dir.path() + "/candidate/step-00000005");
  EXPECT_EQ(LatestCheckpoint(dir.path() + "/candidate")->step, 5);
  EXPECT_EQ(Names(copied->path), Names(saved->path));
  EXPECT_EQ(Names(dir.path() + "/candidate"), std::vector<std::string>{"step-00000005"});
  const auto before = Trainer::Resume(Options(), saved->path), after = Trainer::Resume(Options(), copied->path);
  ASSERT_TRUE(before.ok() && after.ok()) << after.status();
  EXPECT_EQ((*after)->version(), 5);
  ExpectSameBits(**before, **after);
  Train(**after, 6);
  fs::remove_all(saved->path);
  EXPECT_TRUE(VerifyCheckpoint(copied->path).ok()) << "the copy does not need the first";
  EXPECT_TRUE(CopyCheckpoint(copied->path, dir.path() + "/candidate", 5).ok()) << "it replaces an earlier copy";
}

TEST(CheckpointCopy, RejectsADamagedCheckpoint) {
  TempDir dir;
  const auto saved = Fresh()->SaveCheckpoint(dir.path() + "/checkpoints", {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  WriteAll(saved->path + "/model.safetensors", "other");
  EXPECT_TRUE(absl::IsDataLoss(CopyCheckpoint(saved->path, dir.path() + "/candidate", 5).status()));
  EXPECT_TRUE(absl::IsDataLoss(CopyCheckpoint(dir.path() + "/none", dir.path() + "/candidate", 5).status()));
  EXPECT_FALSE(fs::exists(dir.path() + "/candidate"));
}

}  // namespace
}  // namespace ingot::trainer::checkpoint_test
