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
  Task("tpu", "[environment.tpu]\ntype = \"v6e\"\ntopology = \"2x2\"\n");
  Task("online", "[verifier]\nnetwork_mode = \"public\"\n");
  Task("collects", "[[verifier.collect]]\ncommand = \"ls\"\n");
  Task("secret", "[verifier.env]\nKEY = \"${API_KEY}\"\n");
  Task("relative", "[environment]\nworkdir = \"app\"\n");
  Task("torn", "[environment\n");
  fs::remove(Task("mute") / "instruction.md");
  fs::remove(Task("unjudged") / "tests/test.sh");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tasks.empty());
  std::string all;
  for (const auto& refusal : read->refused) all += refusal.name + ": " + refusal.text + "\n";
  for (const char* const line :
       {"compose: it asks for several containers", "gpu: it asks for environment.gpus",
        "network: it asks for a network", "windows: it asks for Windows", "mcp: it asks for MCP servers",
        "apart: its tests want an environment of their own", "torn: task.toml, line ", "mute: it has no instruction.md",
        "unjudged: it has no tests/test.sh", "tpu: it asks for environment.tpu",
        "online: it asks for a network beyond the gateway (verifier.network_mode)",
        "collects: it asks for commands between agent and tests",
        "secret: it asks for a variable of this machine (verifier.env.KEY)",
        "relative: environment.workdir is no absolute path"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()),
              testing::AllOf(HasSubstr("none of its 14 tasks runs here"), HasSubstr("ingot tasks check")));
}

TEST_F(HarborTest, WhatATaskNamesIsInItsPayloadAndNothingElse) {
  Task("bare");
  Task("full", R"([environment]
storage_mb = 100
memory = "2G"
workdir = "/srv"
env = {A = "a", B = "${B:-dflt}-${C:-}"}
[environment.healthcheck]
command = "test -e /ready"
interval_sec = 0.5
retries = 2
[verifier]
env = {V = "v"}
[solution]
env = {S = "s"}
)");
  const auto tasks = LoadTasks(root_.string());
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const auto bare = base::ParseJson((*tasks)[0].payload_json())->as_object();
  EXPECT_EQ(bare.size(), 4u) << "instruction, task_dir, tests_dir, image: " << (*tasks)[0].payload_json();
  const auto full = base::ParseJson((*tasks)[1].payload_json()).value();
  EXPECT_EQ(full.at("storage_mb").to_number<double>(), 100);
  EXPECT_EQ(full.at("memory_mb").to_number<double>(), 2048);
  EXPECT_EQ(full.at("workdir").get_string(), "/srv");
  EXPECT_EQ(base::PrintJson(full.at("env")), R"({"A":"a","B":"dflt-"})");
  EXPECT_EQ(base::PrintJson(full.at("verifier_env")), R"({"V":"v"})");
  EXPECT_EQ(base::PrintJson(full.at("solution_env")), R"({"S":"s"})");
  const auto& health = full.at("healthcheck");
  EXPECT_EQ(health.at("command").get_string(), "test -e /ready");
  EXPECT_EQ(health.at("interval_s").to_number<double>(), 0.5);
  EXPECT_EQ(health.at("retries").to_number<int64_t>(), 2);
}

TEST_F(HarborTest, FieldsThatAreNotHonouredAreNoted) {
  Task("other", R"(artifacts = ["/app/out"]
[agent]
user = "dev"
[verifier]
user = 1000
[environment]
build_timeout_sec = 60
skills_dir = "/skills"
)");
  Task("root", "[agent]\nuser = \"root\"\n[verifier]\nuser = 0\n");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tasks.size(), 2u);
  std::string all;
  for (const auto& note : read->notes) all += note.name + " " + note.text.substr(0, note.text.find(':')) + "\n";
  EXPECT_EQ(all,
            "other agent.user\nother verifier.user\nother environment.build_timeout_sec\nother environment.skills_dir\n"
            "other artifacts\n");
}

TEST_F(HarborTest, AFolderWithoutTasksIsNamed) {
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()), HasSubstr("task.toml"));
}

}  // namespace
}  // namespace ingot::dataset
