// Completion of the command line.
#include "app/completion.h"

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
    train->add_flag("--resume");
    app_.add_subcommand("config")->add_subcommand("check");
    app_.add_subcommand("view")->add_option("run_dir", config_);
  }
  std::vector<std::string> Of(const std::vector<std::string>& words) {
    return Completions(app_, words, {"trainer.learning_rate", "trainer.steps", "run.name"});
  }

  CLI::App app_;
  std::string config_;
  std::vector<std::string> overrides_;
};

TEST_F(CompletionsTest, OffersCommandsThenOptionsThenKeys) {
  EXPECT_THAT(Of({"tr"}), ElementsAre("train"));
  EXPECT_THAT(Of({"config", ""}), ElementsAre("check"));
  EXPECT_THAT(Of({"train", "--re"}), ElementsAre("--resume"));
  EXPECT_THAT(Of({"train", "run.yaml", "trainer.l"}), ElementsAre("trainer.learning_rate="));
  EXPECT_THAT(Of({"train", "--set", "run."}), ElementsAre("run.name="));
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
