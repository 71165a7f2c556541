#include "app/cluster/launchers/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ingot::app::slurm_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

SlurmScript Script() {
  SlurmScript script;
  script.name = "smoke";
  script.folder = "/shared/a run";
  script.binary = "/opt/ingot";
  script.groups = {{"engines", 2, {"rollout"}, 1, {}}, {"control", 1, {"gateway", "trainer"}, 1, {}}};
  script.options = {"--time=01:00:00"};
  script.drain_s = 90;
  return script;
}

TEST(SlurmScript, NodesOfOneKindAreOneJobThatOutlivesANode) {
  const std::string text = RenderSlurm(Script());
  EXPECT_THAT(text, HasSubstr("#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=1\n#SBATCH --no-kill\n#SBATCH --time="));
  EXPECT_THAT(text, HasSubstr("#SBATCH --signal=B:TERM@120\n"));
  EXPECT_THAT(text, HasSubstr("srun --relative=0 --nodes=2 --ntasks=2"));
  EXPECT_THAT(text, HasSubstr("srun --relative=2 --nodes=1 --ntasks=1"));
  EXPECT_THAT(text, HasSubstr("/opt/ingot node '/shared/a run/config.yaml' --group control --resume &\ndeciding=$!\n"));
  EXPECT_THAT(text, Not(HasSubstr("--group engines --resume &\ndeciding")));
  EXPECT_THAT(text, Not(HasSubstr("hetjob")));
}

TEST(SlurmScript, HeterogeneousJobsAreRejectedWhereSlurmTakesNone) {
  const auto check = [](const SlurmScript& script, const std::string& scheduler) {
    return CheckSlurm(script.groups, [&](const std::vector<std::string>&) -> absl::StatusOr<std::string> {
      return "SchedulerTimeSlice = 30 sec\nSchedulerType           = " + scheduler + "\nSlurmUser = root(0)";
    });
  };
  SlurmScript script = Script();
  EXPECT_TRUE(check(script, "sched/builtin").ok()) << "its nodes are of one kind";
  script.groups[0].slurm = {"--gres=gpu:8"};
  EXPECT_TRUE(check(script, "sched/backfill").ok());
  const absl::Status rejected = check(script, "sched/builtin");
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected));
  EXPECT_THAT(std::string(rejected.message()),
              HasSubstr("does not accept heterogeneous jobs (its SchedulerType is sched/builtin"));
}

TEST(SlurmScript, GroupsWithOptionsOfTheirOwnAreAHeterogeneousJob) {
  SlurmScript script = Script();
  script.groups[0].slurm = {"--gres=gpu:8"};
  const std::string text = RenderSlurm(script);
  EXPECT_THAT(text, HasSubstr("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --no-kill\n"
                              "#SBATCH --time=01:00:00\n#SBATCH --gres=gpu:8\n#SBATCH hetjob\n#SBATCH --nodes=1\n"));
  EXPECT_THAT(text, HasSubstr("srun --het-group=0 --nodes=2"));
  EXPECT_THAT(text, HasSubstr("srun --het-group=1 --nodes=1"));
}

TEST(SlurmScript, AsksForTheResourcesOfItsGroups) {
  SlurmScript script = Script();
  script.groups[0].resources = {{"cpu", "16"}, {"memory", "64Gi"}, {"nvidia.com/gpu", "8"}};
  script.groups[1].slurm = {"--cpus-per-task=4"};
  const std::string text = RenderSlurm(script);
  EXPECT_THAT(text, HasSubstr("#SBATCH --cpus-per-task=16\n#SBATCH --mem=64G\n#SBATCH --gres=gpu:8\n#SBATCH hetjob\n"));
  // Without this option, srun would give the step one CPU.
  EXPECT_THAT(text, HasSubstr("--het-group=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 "));
  EXPECT_THAT(text, HasSubstr("--het-group=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=4 "));
  // Equal nodes do not need a heterogeneous job.
  script.groups[1].slurm.clear();
  script.groups[1].resources = script.groups[0].resources;
  const std::string alike = RenderSlurm(script);
  EXPECT_THAT(alike, Not(HasSubstr("hetjob")));
  EXPECT_THAT(alike, HasSubstr("#SBATCH --time=01:00:00\n#SBATCH --cpus-per-task=16\n#SBATCH --mem=64G\n"));
  EXPECT_THAT(alike, HasSubstr("--relative=2 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 "));
  script.options = {"-c 2"};
  for (NodeGroup& group : script.groups) group.resources.clear();
  EXPECT_THAT(RenderSlurm(script), HasSubstr("--ntasks-per-node=1 --cpus-per-task=2 "));
}

TEST(SlurmResources, TakesWhatSlurmCanCount) {
  const auto options = [](const std::string& name, const std::string& value) {
    NodeGroup group;
    group.name = "engines";
    group.resources = {{name, value}};
    return SlurmResources(group);
  };
  EXPECT_THAT(*options("memory", "500Mi"), ElementsAre("--mem=500M"));
  EXPECT_THAT(*options("memory", "2T"), ElementsAre("--mem=2T"));
  EXPECT_THAT(*options("amd.com/gpu", "4"), ElementsAre("--gres=gpu:4"));
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{{"memory", "1e9"},
                                                                                              {"memory", "Gi"},
                                                                                              {"memory", ""},
                                                                                              {"cpu", "0.5"},
                                                                                              {"cpu", ""},
                                                                                              {"nvidia.com/gpu", "x"},
                                                                                              {"disk", "1"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(options(name, value).status())) << name << " " << value;
  }
}

TEST(SlurmScript, IsAScriptThatAShellCanRead) {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-sbatch-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  std::ofstream(folder + "/script") << RenderSlurm(Script());
  EXPECT_EQ(std::system(("bash -n " + folder + "/script").c_str()), 0);
  std::filesystem::remove_all(folder);
}

// srun of the engines does not hear of the run's end, as where Slurm has lost the step.
TEST(SlurmScript, EndsWithTheRunsCodeThoughAStepNeverEnds) {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-sbatch-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  const auto program = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << "#!/bin/bash\n" << text;
    std::filesystem::permissions(folder + "/" + name, std::filesystem::perms::owner_all);
  };
  program("srun", "[[ \"$*\" != *control* ]] || exit 3\ntrap 'kill $!; exit' TERM\nsleep 60 &\necho $$ > " + folder +
                      "/lost\nwait\ntouch " + folder + "/late\n");
  program("scancel", "echo \"$*\" >> " + folder + "/cancels\n[ \"$1\" != 7 ] || kill $(cat " + folder + "/lost)\n");
  SlurmScript script = Script();
  script.folder = folder;
  script.drain_s = -29;  // a second
  std::string text = RenderSlurm(script);
  const std::string deciding = "deciding=$!\n";
  text.insert(text.find(deciding) + deciding.size(), "sleep 0.1\n");  // its step ends before anybody waits for it
  program("job", text);
  const int status = std::system(("PATH=" + folder + ":$PATH SLURM_JOB_ID=7 bash " + folder + "/job").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
  const auto content = [&](const std::string& name) {
    std::stringstream text;
    text << std::ifstream(folder + "/" + name).rdbuf();
    return text.str();
  };
  EXPECT_EQ(content("launch.exit"), "3\n");
  EXPECT_EQ(content("cancels"), "--signal=INT 7\n7\n");
  EXPECT_FALSE(std::filesystem::exists(folder + "/late"));
  std::filesystem::remove_all(folder);
}

TEST(SubmitSlurm, TakesTheJobsNumberAndTellsARejection) {
  std::vector<std::string> asked;
  const auto answers = [&](const std::string& answer) {
    return [&asked, answer](const std::vector<std::string>& argv) -> absl::StatusOr<std::string> {
      asked = argv;
      return answer;
    };
  };
  EXPECT_EQ(*SubmitSlurm("run.sbatch", answers("417;posed")), "417");
  EXPECT_THAT(asked, ElementsAre("sbatch", "--parsable", "run.sbatch"));
  EXPECT_TRUE(absl::IsUnavailable(SubmitSlurm("run.sbatch", answers("who knows")).status()));
  const absl::Status missing = SubmitSlurm("run.sbatch", [](const auto&) {
                                 return absl::UnavailableError("sbatch: no such partition");
                               }).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no such partition"));
}

TEST(RunHere, GivesTheOutputOrTheError) {
  EXPECT_EQ(*RunHere({"/bin/echo", "two", "words"}), "two words");
  const absl::Status failed = RunHere({"/bin/sh", "-c", "echo because >&2; exit 3"}).status();
  EXPECT_TRUE(absl::IsUnavailable(failed));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("because"));
  EXPECT_EQ(*RunHere({"/bin/sh", "-c", "echo a warning >&2; echo job-7"}), "job-7");
  EXPECT_EQ(*RunHere({"/bin/sh", "-c", "echo a warning >&2"}), "") << "which is no object that kubectl found";
  EXPECT_FALSE(RunHere({"/no/such/program"}).ok());
  const absl::Status late = RunWithin(std::chrono::milliseconds(50), {"/bin/sleep", "1000"}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("/bin/sleep did not end within 50 ms and was killed"));
}

// Slurm as a list of the states that squeue shows one after the other: lines of ID|STATE|REASON|SCRIPT.
class WatchSlurmTest : public ::testing::Test {
 protected:
  WatchSlurmTest() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-slurm-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    watch_.poll = std::chrono::milliseconds(0);
    watch_.on_status = [this](const std::string& line) { lines_.push_back(line); };
    watch_.run = [this](const std::vector<std::string>& argv) -> absl::StatusOr<std::string> {
      if (argv.front() == "scancel") {
        cancels_.push_back(argv[1]);
        states_.clear();
        return std::string();
      }
      if (states_.empty()) return std::string("70|RUNNING|None|/other\n");  // another run's job
      const std::string state = states_.front();
      states_.erase(states_.begin());
      if (state == "busy") return absl::UnavailableError("slurmctld is busy");
      return "70|RUNNING|None|/other\n" + state;
    };
  }
  ~WatchSlurmTest() override { std::filesystem::remove_all(folder_); }

  SlurmLauncher RunLauncher(const std::string& job) {
    SlurmScript script;
    script.folder = folder_;
    return {script, watch_, job};
  }
  absl::StatusOr<int> Watch() { return RunLauncher("7").Watch(stop_); }

  std::string folder_;
  JobOptions watch_;
  std::vector<std::string> states_, lines_, cancels_;
  std::atomic<bool> stop_ = false;
};

TEST_F(WatchSlurmTest, FollowsAJobToItsExitCodeAndSaysWhyItWaits) {
  states_ = {
      "7|PENDING|Priority|/s", "7|PENDING|Priority|/s", "7|PENDING|ReqNodeNotAvail, UnavailableNodes:node1|/s", "busy",
      "7|RUNNING|None|/s",     "7|COMPLETING|None|/s"};
  std::ofstream(folder_ + "/launch.exit") << "3\n";
  const auto code = Watch();
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 3);
  EXPECT_THAT(lines_,
              ElementsAre("job 7 is PENDING (Priority)", "job 7 is PENDING (ReqNodeNotAvail, UnavailableNodes:node1)",
                          "slurmctld is busy", "job 7 is RUNNING", "job 7 is COMPLETING"));
}

TEST_F(WatchSlurmTest, KnowsThePartsOfAHeterogeneousJob) {
  states_ = {"7+0|PENDING|None|/s\n7+1|PENDING|Resources|/s\n", "7+0|RUNNING|None|/s\n7+1|RUNNING|None|/s"};
  std::ofstream(folder_ + "/launch.exit") << "0\n";
  EXPECT_EQ(*Watch(), 0);
  EXPECT_THAT(lines_, ElementsAre("job 7 is PENDING (Resources)", "job 7 is RUNNING"));
}

TEST_F(WatchSlurmTest, AJobThatWasKilledHasNoExitCode) {
  states_ = {"7|RUNNING|None|/s"};
  EXPECT_TRUE(absl::IsAborted(Watch().status()));
}

TEST_F(WatchSlurmTest, StopsTheJobOnceAndInOrder) {
  states_ = {"7|RUNNING|None|/s", "7|RUNNING|None|/s"};
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(Watch().status()));
  EXPECT_THAT(cancels_, ElementsAre("--signal=INT"));
}

TEST_F(WatchSlurmTest, FindsAJobOfTheRunsFolderThatWasSubmittedBefore) {
  const std::string script = folder_ + "/launch.sbatch";
  std::ofstream(script) << "#!/bin/bash\n";
  states_ = {"8|PENDING|Resources|" + folder_ + "/../" + folder_.substr(folder_.rfind('/') + 1) + "/launch.sbatch"};
  EXPECT_EQ(*RunLauncher("").Present(), "job 8 is PENDING (Resources); `scancel 8` ends it");
  states_ = {"8|PENDING|Resources|/elsewhere/launch.sbatch"};
  EXPECT_EQ(*RunLauncher("").Present(), "") << "a run in another folder";
  states_ = {"busy"};
  EXPECT_TRUE(absl::IsUnavailable(RunLauncher("").Present().status()));
}

}  // namespace
}  // namespace ingot::app::slurm_test
