// Completion of the command line.
#include "app/commands/command_line/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace ingot::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CompletionsTest : public ::testing::Test {
 protected:
  CompletionsTest() {
    CLI::App* const train = app_.add_subcommand("train");
    train->add_option("config", config_);
    train->add_option("--set", overrides_);
    train->add_option("overrides", overrides_);
    train->add_flag("--resume");
    train->add_option("--samples", samples_);
    CLI::App* const eval = app_.add_subcommand("eval");
    eval->add_option("checkpoint", config_);
    eval->add_option("config", config_);
    eval->add_option("overrides", overrides_);
    CLI::App* const import = app_.add_subcommand("import");
    import->add_option("config", config_);
    import->add_option("--set", overrides_);
    import->add_option("files", overrides_);
    CLI::App* const export_as = app_.add_subcommand("export");
    export_as->add_option("--as", config_)->check(CLI::IsMember({"sft", "dpo", "atif"}));
    export_as->add_option("--dtype", config_)->type_name("{fp32,bf16}");
    app_.add_subcommand("config")->add_subcommand("check");
    app_.add_subcommand("view")->add_option("run_dir", config_);
  }
  std::vector<std::string> Of(const std::vector<std::string>& words) {
    return Completions(app_, words, {"trainer.learning_rate", "trainer.steps", "run.name"});
  }

  CLI::App app_;
  std::string config_;
  std::vector<std::string> overrides_;
  int samples_ = 0;
};

TEST_F(CompletionsTest, OffersCommandsThenOptionsThenKeys) {
  EXPECT_THAT(Of({"tr"}), ElementsAre("train"));
  EXPECT_THAT(Of({"config", ""}), ElementsAre("check"));
  EXPECT_THAT(Of({"train", "--re"}), ElementsAre("--resume"));
  EXPECT_THAT(Of({"train", "run.yaml", "trainer.l"}), ElementsAre("trainer.learning_rate="));
  EXPECT_THAT(Of({"train", "--set", "run."}), ElementsAre("run.name="));
  EXPECT_THAT(Of({"train", "run.yaml", "--resume", "run."}), ElementsAre("run.name="));
}

TEST_F(CompletionsTest, OffersKeysWhereAnOverrideIsTakenAlone) {
  EXPECT_THAT(Of({"eval", "ckpt", "run."}), IsEmpty()) << "run.yaml comes before overrides";
  EXPECT_THAT(Of({"eval", "ckpt", "run.yaml", "run."}), ElementsAre("run.name="));
  EXPECT_THAT(Of({"import", "run.yaml", "tr"}), IsEmpty()) << "words without --set are files";
  EXPECT_THAT(Of({"import", "run.yaml", "--set", "run."}), ElementsAre("run.name="));
}

TEST_F(CompletionsTest, TakesTheValueOfAnOptionForNoPosition) {
  EXPECT_THAT(Of({"train", "--samples", "4", "run."}), IsEmpty());
  EXPECT_THAT(Of({"train", "--samples", "4", "run.yaml", "run."}), ElementsAre("run.name="));
  EXPECT_THAT(Of({"train", "--samples", "run."}), IsEmpty());
  EXPECT_THAT(Of({"train", "--set", "run.name=config", "run."}), IsEmpty());
}

TEST_F(CompletionsTest, OffersTheChoicesOfAnOption) {
  EXPECT_THAT(Of({"export", "--as", ""}), ElementsAre("sft", "dpo", "atif"));
  EXPECT_THAT(Of({"export", "--dtype", "b"}), ElementsAre("bf16"));
}

TEST_F(CompletionsTest, LeavesFilesToTheShell) {
  EXPECT_THAT(Of({"train", "ru"}), IsEmpty());
  EXPECT_THAT(Of({"view", "runs/a", "trainer."}), IsEmpty());  // takes no keys
  EXPECT_THAT(Of({}), IsEmpty());
}

TEST(CompletionScript, IsThereForThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(CompletionScript(shell).value(), testing::HasSubstr("ingot completion words"));
  }
  EXPECT_FALSE(CompletionScript("tcsh").ok());
}

}  // namespace
}  // namespace ingot::app
