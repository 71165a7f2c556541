#include "app/commands/run/run_command.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

TEST(NextCommands, ServeTheBestModelOrElseTheNewest) {
  std::string pattern = ::testing::TempDir() + "/ingot_next_XXXXXX";
  const std::string run = ::mkdtemp(pattern.data());
  EXPECT_EQ(NextCommands(run, "ingot"), "next:\n  ingot view " + run + "\n  ingot report " + run + "\n") << "no model";
  for (const char* name : {"step-00000002", "step-00000010", "candidate-00000012", "step-x"}) {
    fs::create_directories(run + "/checkpoints/" + name);
  }
  const std::string serve = "  ingot serve " + run + "/checkpoints/";
  EXPECT_TRUE(NextCommands(run, "ingot").ends_with(serve + "step-00000010\n"));
  fs::create_directories(run + "/checkpoints/best");
  EXPECT_TRUE(NextCommands(run, "ingot").ends_with(serve + "best\n"));
  fs::remove_all(run);
}

TEST(NextCommands, AreWordsOfAShell) {
  EXPECT_EQ(NextCommands("my runs/it's", "/opt/in got/ingot"),
            "next:\n  '/opt/in got/ingot' view 'my runs/it'\\''s'\n  '/opt/in got/ingot' report 'my runs/it'\\''s'\n");
  EXPECT_EQ(NextCommands("-runs/a", "ingot"), "next:\n  ingot view ./-runs/a\n  ingot report ./-runs/a\n");
}

}  // namespace
}  // namespace ingot::app
