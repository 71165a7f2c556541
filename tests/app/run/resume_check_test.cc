#include "app/run/resume_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ResumeCheck : public ::testing::Test {
 protected:
  ResumeCheck() {
    std::string pattern = ::testing::TempDir() + "/ingot_resume_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~ResumeCheck() override { std::filesystem::remove_all(root_); }

  LoadedConfig Load(const std::vector<std::string>& overrides) const {
    const std::string path = root_ + "/run.yaml";
    std::ofstream(path) << "data: {tasks: tasks.jsonl}\nscheduler: {group_size: 4, groups_per_step: 2}\n";
    auto loaded = LoadRunConfig(path, overrides);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  RunDir Dir() const { return *RunDir::Attach(root_, "run"); }
  std::string Check(const std::vector<std::string>& overrides) const {
    const absl::Status status = CheckResumable(Load(overrides), Dir());
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  std::string root_;
};

TEST_F(ResumeCheck, ChangedGroupOrBatchSizesAreRejected) {
  ASSERT_TRUE(Dir().WriteFile("config.yaml", Load({}).schema.EffectiveYaml()).ok());
  EXPECT_EQ(Check({}), "");
  EXPECT_EQ(Check({"scheduler.total_steps=77", "trainer.learning_rate=1e-3", "run.seed=9"}), "");
  EXPECT_THAT(Check({"scheduler.group_size=8"}),
              AllOf(HasSubstr("scheduler.group_size is 8"), HasSubstr("made for 4 (" + root_ + "/run/config.yaml)")));
  EXPECT_THAT(Check({"scheduler.groups_per_step=3"}), HasSubstr("scheduler.groups_per_step is 3"));
}

// Its pool would answer for the run's own evaluation.
TEST_F(ResumeCheck, ACollectionIsNoRunToGoOnWith) {
  ASSERT_TRUE(Dir().WriteFile("config.yaml", Load({}).schema.EffectiveYaml()).ok());
  ASSERT_TRUE(Dir().WriteFile("collection.json", "{}").ok());
  EXPECT_THAT(Check({}), HasSubstr("holds a collection and not a run to resume"));
}

TEST_F(ResumeCheck, TheLogNamesChangedKeys) {
  ASSERT_TRUE(Dir().WriteFile("config.yaml", Load({}).schema.EffectiveYaml()).ok());
  ::testing::internal::CaptureStdout();
  Check({"scheduler.total_steps=77", "run.log_level=debug"});
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("changed since the run stopped: scheduler.total_steps (100 -> 77)"));
}

TEST_F(ResumeCheck, TheLogNamesAChangedChatTemplate) {
  const std::string file = root_ + "/mine.jinja";
  const std::vector<std::string> keys = {"model.path=m", "model.chat_template=" + file};
  std::ofstream(file) << "one";
  const LoadedConfig loaded = Load(keys);
  ASSERT_TRUE(Dir().WriteFile("config.yaml", loaded.schema.EffectiveYaml()).ok());
  ASSERT_TRUE(KeepChatTemplate(loaded.config->model, Dir()).ok());
  EXPECT_FALSE(ChatTemplateChanged(loaded.config->model, Dir().path()));
  std::ofstream(file) << "two";
  ::testing::internal::CaptureStdout();
  Check(keys);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("changed since the run stopped: the text of model.chat_template (" + file + ")"));
  // Roles that start later, and commands that read the run, take the copy.
  ModelOptions model = loaded.config->model;
  UseKeptTemplate(Dir().path(), model);
  EXPECT_EQ(model.chat_template, root_ + "/run/chat_template.jinja");
  ModelOptions without;
  UseKeptTemplate(Dir().path(), without);
  EXPECT_EQ(without.chat_template, "");
}

TEST_F(ResumeCheck, TheLogNamesAChangedLoss) {
  const LoadedConfig loaded = Load({"trainer.objective=custom", "trainer.custom.function=l.py:f"});
  trainer::TrainerOptions& options = loaded.config->trainer;
  const auto resumed = [&] {
    ::testing::internal::CaptureStdout();
    EXPECT_TRUE(CheckResumable(loaded, Dir()).ok());
    return ::testing::internal::GetCapturedStdout();
  };
  ASSERT_TRUE(Dir().WriteFile("config.yaml", loaded.schema.EffectiveYaml()).ok());
  EXPECT_THAT(std::string(UseKeptLoss(Dir().path(), options).message()),
              AllOf(HasSubstr("custom_loss.json"), HasSubstr("`ingot launch` write it")));
  options.custom.graph = R"({"nodes":[{"op":"a","line":"l.py:1"}],"loss":6})";
  EXPECT_EQ(resumed(), "");  // the run has none yet
  ASSERT_TRUE(KeepLoss(options, Dir()).ok());
  EXPECT_EQ(resumed(), "");
  options.custom.graph = R"({"nodes":[{"op":"a","line":"l.py:2"}],"loss":6})";
  EXPECT_EQ(resumed(), "") << "only a line moved";
  options.custom.graph = R"({"nodes":[{"op":"b","line":"l.py:1"}],"loss":6})";
  EXPECT_THAT(resumed(), HasSubstr("changed since the run stopped: the loss of trainer.custom.function (l.py:f)"));
  // The ranks of the trainer take the run's graph.
  ASSERT_TRUE(UseKeptLoss(Dir().path(), options).ok());
  EXPECT_THAT(options.custom.graph, HasSubstr("\"a\""));
  trainer::TrainerOptions without;
  EXPECT_TRUE(KeepLoss(without, Dir()).ok());
  EXPECT_TRUE(UseKeptLoss(Dir().path(), without).ok());
  EXPECT_EQ(without.custom.graph, "");
}

TEST_F(ResumeCheck, AConfigurationThatIsGoneIsSaid) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Check({"scheduler.group_size=8"}), "");
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("run/config.yaml is gone: the run resumes with the given configuration"));
}

TEST_F(ResumeCheck, AnUnreadableOldConfigurationIsAccepted) {
  ASSERT_TRUE(Dir().WriteFile("config.yaml", "scheduler: {a_key_of_old: 3}\n").ok());
  EXPECT_EQ(Check({"scheduler.group_size=8"}), "");
}

}  // namespace
}  // namespace ingot::app
