// Harbor's task folders: what is read, and what is refused by name.
#include "dataset/harbor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "dataset/tasks.h"

namespace ingot::dataset {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HarborTest : public testing::Test {
 protected:
  HarborTest() {
    char name[] = "/tmp/ingot-harbor-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~HarborTest() override { fs::remove_all(root_); }

  // A task that runs here, unless `toml` says otherwise.
  fs::path Task(const std::string& name, const std::string& toml = "") {
    const fs::path folder = root_ / name;
    for (const char* const part : {"environment", "tests", "solution"}) fs::create_directories(folder / part);
    std::ofstream(folder / "task.toml") << "version = \"1.0\"\n" << toml;
    std::ofstream(folder / "instruction.md") << "Make /app/hello.txt\n";
    std::ofstream(folder / "environment/Dockerfile") << "FROM scratch\n";
    std::ofstream(folder / "tests/test.sh") << "echo 1 > /logs/verifier/reward.txt\n";
    return folder;
  }

  fs::path root_;
};

TEST_F(HarborTest, AFolderIsATaskWithItsLimitsAndItsImage) {
  const fs::path folder = Task("hello", R"([metadata]
category = "files"
[agent]
timeout_sec = 90.0
[verifier]
timeout_sec = 30
[environment]
cpus = 2
memory_mb = 512
)");
  Task("image", "[environment]\ndocker_image = \"debian:12\"\n");
  const auto tasks = LoadTasks(root_.string());
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ASSERT_EQ(tasks->size(), 2u);
  EXPECT_EQ((*tasks)[0].task_id(), "hello");
  EXPECT_EQ((*tasks)[0].domain(), "files");
  const auto payload = base::ParseJson((*tasks)[0].payload_json()).value();
  EXPECT_EQ(payload.at("instruction").get_string(), "Make /app/hello.txt\n");
  EXPECT_EQ(payload.at("tests_dir").get_string(), fs::canonical(folder / "tests").string());
  EXPECT_EQ(payload.at("image").get_string(), "dockerfile:" + fs::canonical(folder / "environment").string());
  EXPECT_EQ(payload.at("agent_timeout_s").to_number<double>(), 90);
  EXPECT_EQ(payload.at("verifier_timeout_s").to_number<double>(), 30);
  EXPECT_EQ(payload.at("memory_mb").to_number<int64_t>(), 512);
  EXPECT_THAT((*tasks)[1].payload_json(), HasSubstr("docker://debian:12"));
  EXPECT_EQ(LoadTasks(folder.string())->size(), 1u) << "one task itself";
}

TEST_F(HarborTest, WhatRoomsCannotGiveIsRefusedByName) {
  fs::create_directories(Task("compose") / "environment");
  std::ofstream(root_ / "compose/environment/docker-compose.yaml") << "services:\n";
  Task("gpu", "[environment]\ngpus = 1\n");
  Task("network", "[environment]\nnetwork_mode = \"public\"\n");
  Task("windows", "[environment]\nos = \"windows\"\n");
  Task("apart", "[verifier.environment]\ndocker_image = \"debian:12\"\n");
  Task("mcp", "[[environment.mcp_servers]]\nname = \"x\"\n");
  Task("torn", "[environment\n");
  fs::remove(Task("mute") / "instruction.md");
  fs::remove(Task("unjudged") / "tests/test.sh");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tasks.empty());
  std::string all;
  for (const auto& refusal : read->refused) all += refusal.name + ": " + refusal.reason + "\n";
  for (const char* const line :
       {"compose: it asks for several containers", "gpu: it asks for environment.gpus",
        "network: it asks for a network", "windows: it asks for Windows", "mcp: it asks for MCP servers",
        "apart: its tests want an environment of their own", "torn: task.toml, line ", "mute: it has no instruction.md",
        "unjudged: it has no tests/test.sh"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()),
              testing::AllOf(HasSubstr("none of its 9 tasks runs here"), HasSubstr("ingot tasks check")));
}

TEST_F(HarborTest, AFolderWithoutTasksIsNamed) {
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()), HasSubstr("task.toml"));
}

}  // namespace
}  // namespace ingot::dataset
