// Harbor's task folders: what is read, and what is refused by name.
#include "dataset/harbor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/json.h"
#include "dataset/harbor_toml.h"
#include "dataset/task_folder.h"
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

TEST_F(HarborTest, WhatSandboxesCannotGiveIsRejectedByName) {
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
  for (const auto& rejection : read->rejected) all += rejection.name + ": " + rejection.text + "\n";
  for (const char* const line :
       {"compose: it needs multiple containers", "gpu: it requires environment.gpus",
        "network: it requires network access", "windows: it requires Windows", "mcp: it requires MCP servers",
        "apart: its tests need a separate environment", "torn: task.toml, line ", "mute: it has no instruction.md",
        "unjudged: it has no tests/test.sh", "tpu: it requires environment.tpu",
        "online: it requires network access besides the gateway (verifier.network_mode)",
        "collects: it runs commands between the agent and the tests",
        "secret: it needs an environment variable from this machine (verifier.env.KEY)",
        "relative: environment.workdir is not an absolute path"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()),
              testing::AllOf(HasSubstr("none of its 14 tasks can run here"), HasSubstr("ingot tasks check")));
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
build_timeout_sec = 3600
skills_dir = "/skills"
)");
  Task("root", "[agent]\nuser = \"root\"\n[verifier]\nuser = 0\n[environment]\nbuild_timeout_sec = 600.0\n");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tasks.size(), 2u);
  std::string all;
  for (const auto& note : read->notes) all += note.name + " " + note.text.substr(0, note.text.find(':')) + "\n";
  EXPECT_EQ(all,
            "other agent.user\nother verifier.user\nother environment.build_timeout_sec\nother environment.skills_dir\n"
            "other artifacts\n");
}

// "NAME: why" of each refused task, one a line.
std::string Rejections(const HarborFolder& read) {
  std::string all;
  for (const auto& rejection : read.rejected) all += rejection.name + ": " + rejection.text + "\n";
  return all;
}

TEST_F(HarborTest, AValueOfTheWrongKindIsRejectedWithItsPlace) {
  struct Case {
    const char *name, *toml, *why;
  };
  std::string wanted;
  for (const Case& each : std::initializer_list<Case>{
           {"a", "[environment]\ngpus = \"one\"\n",
            "3: environment.gpus is \"one\", a string: write a number from 0 to 1e9"},
           {"b", "[environment]\ncpus = \"4x\"\n",
            "3: environment.cpus is \"4x\", a string: write a number from 0 to 1e9"},
           {"c", "[agent]\ntimeout_sec = \"inf\"\n",
            "3: agent.timeout_sec is \"inf\", a string: write a number of seconds above 0 and at most 1e9"},
           {"d", "[agent]\ntimeout_sec = -1\n",
            "3: agent.timeout_sec is -1, a number: write a number of seconds above 0 and at most 1e9"},
           {"e", "[verifier]\n\ntimeout_sec = inf\n",
            "4: verifier.timeout_sec is inf, a number: write a number of seconds above 0 and at most 1e9"},
           {"f", "[environment]\nenv = {A = 1}\n",
            "3: environment.env.A is 1, a number: write a string in quotation marks"},
           {"g", "[environment]\nenv = [\"A=1\"]\n", "3: environment.env is a list: write a table"},
           {"h", "[environment]\nnetwork_mode = \"host\"\n",
            "3: environment.network_mode is \"host\", a string: write one of no-network, public, allowlist"},
           {"i", "[environment]\ndocker_image = 5\n",
            "3: environment.docker_image is 5, a number: write a string in quotation marks"},
           {"j", "schema_version = \"9.0\"\n",
            "2: schema_version is \"9.0\", a string: write a version of schema 1.x, such as \"1.0\""},
           {"k", "[environment]\nmemory = \"2 GB\"\n",
            "3: environment.memory is \"2 GB\", a string: write \"2G\" or \"512M\", or better memory_mb with a number"},
           {"l", "agent = true\n", "2: agent is true, a boolean: write a table"},
           {"m", "[environment]\ngpus = 0.5\n", "3: environment.gpus is 0.5, a number: write a whole number"},
           {"n", "[environment]\nallow_internet = \"no\"\n",
            "3: environment.allow_internet is \"no\", a string: write true or false"},
           {"o", "[environment]\nos = \"plan9\"\n", "3: environment.os is \"plan9\", a string: write \"linux\""},
           {"p", "[verifier]\nuser = 1.5\n", "3: verifier.user is 1.5, a number: write a name or a uid"},
           {"q", "[environment]\nnetwork_mode = \"\\u001b[1m\"\n",
            "3: environment.network_mode is \"\\x1b[1m\", a string: write one of no-network, public, allowlist"}}) {
    Task(each.name, each.toml);
    wanted += std::string(each.name) + ": task.toml, line " + each.why + "\n";
  }
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Rejections(*read), wanted);
}

TEST_F(HarborTest, ANumberMayBeAText) {
  Task("a", "[environment]\ncpus = \"4\"\ngpus = \"0\"\n[agent]\ntimeout_sec = \"90.5\"\n");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Rejections(*read), "");
  ASSERT_EQ(read->tasks.size(), 1u);
  EXPECT_THAT(read->tasks[0].payload_json(), HasSubstr("\"cpus\":4"));
  EXPECT_THAT(read->tasks[0].payload_json(), HasSubstr("\"agent_timeout_s\":90.5"));
}

TEST_F(HarborTest, AMisspeltKeyIsNotedWithTheNearest) {
  Task("a", "[enviroment]\ncpus = 2\n[verifier]\ntimout_sec = 9\n[agent]\nmemory_mb = 5\n[metadata]\nmood = 1\n");
  Task("b", "[environment]\nzzz = 1\ndocker_imag = \"debian:12\"\n");
  fs::remove(root_ / "b/environment/Dockerfile");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tasks.size(), 1u);
  EXPECT_EQ(Rejections(*read), "b: it has neither environment.docker_image nor environment/Dockerfile\n");
  std::vector<std::string> notes;
  for (const auto& note : read->notes) notes.push_back(note.name + " " + note.text);
  EXPECT_THAT(
      notes,
      testing::UnorderedElementsAre(
          "a enviroment: not read, because Harbor has no such section; the nearest is 'environment'",
          "a verifier.timout_sec: not read, because Harbor has no such key; the nearest is 'verifier.timeout_sec'",
          "a agent.memory_mb: not read, because Harbor has no such key; the nearest is 'environment.memory_mb'",
          "b environment.zzz: not read, because Harbor has no such key",
          "b environment.docker_imag: not read, because Harbor has no such key; the nearest is "
          "'environment.docker_image'"));
}

TEST_F(HarborTest, ABadTaskIsRejectedAlone) {
  Task("good", "schema_version = \"1.4\"\n");
  Task("ill", "[environment.healthcheck]\ninterval_sec = 1\n");
  fs::remove(Task("bare") / "task.toml");
  std::ofstream(Task("empty") / "instruction.md") << " \n";
  std::ofstream(Task("odd") / "instruction.md") << "\xff\n";
  fs::remove(Task("looped") / "task.toml");
  fs::create_symlink("task.toml", root_ / "looped/task.toml");  // stands for a folder that the user may not read
  fs::create_directories(root_ / "notes");
  std::ofstream(root_ / "README.md") << "none\n";
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(Rejections(*read),
              testing::MatchesRegex("bare: it has no task.toml\nempty: its instruction.md is empty\n"
                                    "ill: environment.healthcheck has no command: write one, or remove the section\n"
                                    "looped: cannot read [^\n]*looped/task.toml[^\n]*\n"
                                    "odd: its instruction.md is not UTF-8\n"));
  const auto source = ReadTasks(root_.string());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tasks.size(), 1u);
  EXPECT_EQ(source->tasks[0].task_id(), "good");
  EXPECT_EQ(source->rejected, 5);
  EXPECT_EQ(source->remark,
            "1 of 6 tasks of " + root_.string() +
                " can run here; the first rejected task is bare: it has no task.toml; `ingot tasks check " +
                root_.string() + "` lists all");
  EXPECT_EQ(Rejections(*ReadHarborFolder((root_ / "bare").string())), "bare: it has no task.toml\n");
}

// Each task has one deed of a stranger; the one beside them loads.
TEST_F(HarborTest, WhatLeadsOutOfATaskOrBlocksItsReaderIsRejectedAlone) {
  std::ofstream(root_ / "secret") << "version = \"1.0\"\n";
  fs::create_directories(root_ / "elsewhere");
  std::ofstream(root_ / "elsewhere/test.sh") << "true\n";
  std::ofstream(root_ / "elsewhere/Dockerfile") << "FROM scratch\n";
  struct Case {
    const char *name, *path, *target, *why;  // target: of a link; "" = a named pipe
  };
  std::string wanted;
  for (const Case& each : std::initializer_list<Case>{
           {"a", "task.toml", "../secret", "task.toml leads out of the task's folder through a link"},
           {"b", "instruction.md", "../secret", "instruction.md leads out of"},
           {"c", "tests", "../elsewhere", "tests leads out of"},
           {"d", "tests/test.sh", "../../secret", "tests/test.sh leads out of"},
           {"e", "environment", "../elsewhere", "environment leads out of"},
           {"f", "environment/Dockerfile", "/dev/null", "environment/Dockerfile leads out of"},
           {"g", "solution", "../elsewhere", "solution leads out of"},
           {"h", "tests/data/deep/file", "/etc/passwd", "tests/data/deep/file leads out of"},
           {"i", "tests/up", "../../elsewhere/test.sh", "tests/up leads out of"},
           {"j", "solution/up", "../..", "solution/up leads out of"},
           {"k", "task.toml", "", "task.toml is a named pipe \\(FIFO\\), not a file"},
           {"l", "instruction.md", "", "instruction.md is a named pipe \\(FIFO\\), not a file"},
           {"m", "tests/test.sh", "", "tests/test.sh is a named pipe \\(FIFO\\): a task may contain only files"},
           {"n", "tests", "", "tests is a named pipe \\(FIFO\\), not a folder"},
           {"o", "environment/data/pipe", "", "environment/data/pipe is a named pipe"},
           {"p", "environment/.dockerignore", "/etc/shadow", "environment/.dockerignore leads out of"},
           {"q", "solution/pipe", "", "solution/pipe is a named pipe"}}) {
    const fs::path path = Task(each.name) / each.path;
    fs::remove_all(path);
    fs::create_directories(path.parent_path());
    if (each.target[0] != 0) fs::create_symlink(each.target, path);
    if (each.target[0] == 0) {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    }
    wanted += std::string(each.name) + ": " + each.why + "[^\n]*\n";
  }
  Task("good");
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(Rejections(*read), testing::MatchesRegex(wanted));
  ASSERT_EQ(read->tasks.size(), 1u);
  EXPECT_EQ(read->tasks[0].task_id(), "good");
}

TEST_F(HarborTest, LinksThatStayInsideATaskAreFollowed) {
  const fs::path folder = Task("linked");
  fs::create_directories(folder / "real");
  for (const char* const each : {"task.toml", "instruction.md", "tests", "environment"}) {
    fs::rename(folder / each, folder / "real" / each);
    fs::create_symlink(fs::path("real") / each, folder / each);
  }
  fs::create_symlink("test.sh", folder / "real/tests/again");
  fs::create_symlink("not-there", folder / "real/tests/dangling");
  fs::create_symlink("/usr/bin/python3", folder / "real/environment/python3");  // a build looks it up in the image
  const auto read = ReadHarborFolder(root_.string());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Rejections(*read), "");
  ASSERT_EQ(read->tasks.size(), 1u);
  const auto payload = base::ParseJson(read->tasks[0].payload_json()).value();
  EXPECT_EQ(payload.at("tests_dir").get_string(), fs::canonical(folder / "real/tests").string());
}

TEST_F(HarborTest, ASwapAfterALookGainsNothing) {
  const fs::path folder = Task("swapped");
  std::ofstream(root_ / "secret") << "secret\n";
  const auto files = TaskFolder::Open(folder.string());
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE(files->CheckFolder("tests", Links::kInside).ok());
  fs::remove(folder / "instruction.md");
  fs::create_symlink("../secret", folder / "instruction.md");
  EXPECT_TRUE(absl::IsInvalidArgument(files->Read("instruction.md", 100).status()));
  fs::rename(folder / "tests", folder / "old");
  fs::create_symlink("..", folder / "tests");
  EXPECT_TRUE(absl::IsInvalidArgument(files->PathOf("tests").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(files->HasFile("tests/secret").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(files->Read("../secret", 100).status()));
  fs::rename(folder, root_ / "moved");
  fs::create_directories(folder);
  EXPECT_TRUE(files->Read("task.toml", 100).ok()) << "the folder that was opened counts, not its name";
}

TEST_F(HarborTest, TextThatIsNoTomlEndsNoProcess) {
  HarborToml read;
  const auto why = [&](const std::string& text) { return std::string(ReadHarborToml(text, read).message()); };
  EXPECT_EQ(why("version = \"1.0\"\n[\n"), "task.toml, line 2: not valid TOML: check the brackets and quotation marks");
  EXPECT_THAT(why("[\n" + std::string(100'000, '\n')), HasSubstr("line 1:"));
  std::string dotted = "a";
  for (int i = 0; i < 200'000; ++i) dotted += ".a";
  for (const std::string& text : {dotted + " = 1\n", "\n[" + dotted + "]\n", "x = {" + dotted + " = 1}\n",
                                  "s = '''\n'''\n" + dotted + " = 1\n"}) {
    EXPECT_THAT(why(text), HasSubstr("a key has more than 16 dots"));
  }
  EXPECT_EQ(why("[metadata]\ntext = \"\"\"" + dotted + "\"\"\" # " + dotted + "\n"), "");
  EXPECT_NE(why("a = " + std::string(100'000, '[')), "");
  EXPECT_NE(why("a = " + std::string(100'000, '{')), "");
  std::string unknown;
  for (int i = 0; i < 2000; ++i) unknown += "k" + std::to_string(i) + " = 1\n";
  read = {};
  EXPECT_EQ(why(unknown), "");
  EXPECT_EQ(read.notes.size(), 50u);
}

// A few thousand texts near to a good one.
TEST_F(HarborTest, NoMutationOfATaskTomlEndsTheProcess) {
  const std::string good = R"(version = "1.0"
artifacts = ["/app/out", 'x']
[metadata]
category = "files" # free
when = 1979-05-27T07:32:00Z
[agent]
timeout_sec = 90.5e1
user = "dev"
[environment]
cpus = 0x2
memory = "2G"
env = { A = "a\u00e9", "B" = "${B:-dflt}", c.d = """
two""" }
[environment.healthcheck]
command = "test -e /ready"
[[environment.mcp_servers]]
name = 'x'
)";
  const std::string alphabet("[]{}=.,\"'#\\\n\r\t \0\xff\xc3+-_0e:T\x7f\xef\xbb\xbf", 31);
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  int rejected = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
      const size_t at = below(text.size()), kind = below(4);
      if (kind == 0) text.insert(at, 1, alphabet[below(alphabet.size())]);
      if (kind == 1) text[at] = alphabet[below(alphabet.size())];
      if (kind == 2) text.erase(at, 1 + below(20));
      if (kind == 3) text.insert(below(text.size()), text.substr(at, below(40)));
    }
    HarborToml read;
    rejected += ReadHarborToml(text, read).ok() ? 0 : 1;
  }
  EXPECT_GT(rejected, 2000);
  EXPECT_LT(rejected, 6000);
}

TEST_F(HarborTest, FieldsThatAreNotHonouredAreRemarkedOn) {
  Task("a");
  EXPECT_EQ(ReadTasks(root_.string())->remark, "");
  Task("b", "[agnet]\ntimeout_sec = 5\n");
  EXPECT_EQ(
      ReadTasks(root_.string())->remark,
      "1 field of the tasks of " + root_.string() +
          " not supported; the first belongs to b: agnet: not read, because Harbor has no such section; the nearest is "
          "'agent'; `ingot tasks check " +
          root_.string() + "` lists all");
}

TEST_F(HarborTest, AFolderWithoutTasksIsNamed) {
  EXPECT_THAT(std::string(LoadTasks(root_.string()).status().message()), HasSubstr("task.toml"));
}

}  // namespace
}  // namespace ingot::dataset
