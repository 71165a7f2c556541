#include "app/run/run_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr int kFiles = 300;  // in each folder of the run

class RunDirTest : public ::testing::Test {
 protected:
  RunDirTest() {
    std::string pattern = (fs::temp_directory_path() / "ingot-run-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~RunDirTest() override { fs::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ + "/run/" + name; }
  void MakeRun() {
    const auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_FALSE(dir->existed());
    ASSERT_TRUE(dir->WriteFile("config.yaml", "run: {}").ok());
    fs::create_directories(dir->pool());
    std::ofstream(dir->metrics()) << "{}";
    for (int i = 0; i < kFiles; ++i) {
      for (const std::string& folder : {dir->pool(), dir->checkpoints()}) {
        std::ofstream(folder + "/" + std::to_string(i)) << i;
      }
    }
  }
  // What each file of the run holds, without its lock.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_ + "/run")) {
      if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
      std::stringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      contents[entry.path().lexically_relative(root_ + "/run").string()] = content.str();
    }
    return contents;
  }
  // Files of the run, without its lock and its format.
  int Files() const {
    int files = 0;
    std::error_code gone;
    for (auto at = fs::recursive_directory_iterator(root_ + "/run", gone); at != fs::end(at); at.increment(gone)) {
      std::error_code raced;
      files += at->is_regular_file(raced) && at->path().filename() != "lock" && at->path().filename() != "format";
    }
    return files;
  }

  std::string root_;
};

// A folder of another version of Ingot stays as it is; a new run may still take its place.
TEST_F(RunDirTest, ARunOfAnotherFormatIsRejectedByName) {
  MakeRun();
  EXPECT_EQ(Contents().at("format"), "1\n");
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume).ok());
  std::ofstream(Path("format")) << "2\n";
  const auto before = Contents();
  for (const absl::Status& rejected :
       {RunDir::Open(root_, "run", IfExists::kResume).status(), RunDir::Attach(root_, "run").status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("run folder format 2"));
    EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("has format 1"));
  }
  EXPECT_EQ(Contents(), before);
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kReplace).ok());
  std::ofstream(Path("format")) << "one";
  EXPECT_TRUE(absl::IsDataLoss(CheckRunFormat(root_ + "/run")));
  fs::remove(Path("format"));
  EXPECT_TRUE(CheckRunFormat(root_ + "/run").ok()) << "format 1 is the first";
  fs::create_directory(Path("format"));
  EXPECT_FALSE(CheckRunFormat(root_ + "/run").ok()) << "a number that cannot be read";
}

TEST_F(RunDirTest, IfExistsFailsResumesOrReplaces) {
  MakeRun();
  const int files = Files();
  EXPECT_EQ(RunDir::Open(root_, "run", IfExists::kFail).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  EXPECT_EQ(Files(), files);
  {
    const auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
    EXPECT_FALSE(dir->existed());
    EXPECT_FALSE(fs::exists(dir->metrics()));
    EXPECT_TRUE(dir->replaces());
    ASSERT_TRUE(dir->DropReplaced().ok());
    EXPECT_FALSE(dir->replaces());
  }
  EXPECT_EQ(Files(), 0);
  EXPECT_FALSE(RunDir::Open(root_, "run", IfExists::kFail)->existed());
}

// The last evaluation is of the version that the last step made: its row's step is one more.
TEST_F(RunDirTest, TheStepsOfAReplacedRunAreCountedWithoutItsEvaluations) {
  MakeRun();
  std::ofstream(Path("metrics.jsonl")) << "{\"step\": 0}\n{\"step\": 1}\n{\"step\": 2, \"eval/version\": 2}\n";
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kReplace).ok());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("run (2 steps, of "), std::string::npos);
}

TEST_F(RunDirTest, AStartThatFailsPutsTheReplacedRunBack) {
  MakeRun();
  const int files = Files();
  {
    const auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
    ASSERT_TRUE(dir->WriteFile("config.yaml", "run: {other: true}").ok());
    fs::create_directories(dir->pool());
    std::ofstream(dir->pool() + "/new") << "of the start that failed";
    std::ofstream(dir->logs() + "/trainer.log") << "why";
  }
  EXPECT_TRUE(fs::exists(Path("logs/failed-start/trainer.log")));
  EXPECT_EQ(Files(), files + 1);
  EXPECT_FALSE(fs::exists(Path("pool/new")));
  std::string config;
  std::getline(std::ifstream(Path("config.yaml")), config);
  EXPECT_EQ(config, "run: {}");
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
}

// The trainer's role knows when the run has begun; its supervisor holds the folder.
TEST_F(RunDirTest, ARoleDropsTheReplacedRunForItsSupervisor) {
  MakeRun();
  {
    const auto held = RunDir::Open(root_, "run", IfExists::kReplace);
    const auto role = RunDir::Attach(root_, "run");
    EXPECT_TRUE(role->replaces());
    ASSERT_TRUE(role->DropReplaced().ok());
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(RunDirTest, ARejectedJobLeavesTheReplacedRunAsItWas) {
  MakeRun();
  const std::map<std::string, std::string> before = Contents();
  {
    auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
    ASSERT_TRUE(dir->WriteFile("config.yaml", "run: {other: true}").ok());
    ASSERT_TRUE(dir->WriteFile("launch.sbatch", "#!/bin/bash").ok());
    ASSERT_TRUE(dir->HandOver().ok());
    EXPECT_FALSE(*RunDir::IsHeld(root_, "run"));
    EXPECT_TRUE(dir->replaces());
    ASSERT_TRUE(dir->TakeBack().ok());
    EXPECT_TRUE(*RunDir::IsHeld(root_, "run"));
  }
  EXPECT_EQ(Contents(), before);
}

TEST_F(RunDirTest, AStartWaitsOutAGlanceAtItsLock) {
  MakeRun();
  const int glance = ::open(Path("lock").c_str(), O_RDONLY | O_CLOEXEC);  // as IsHeld of another process
  ASSERT_EQ(::flock(glance, LOCK_SH), 0);
  const std::jthread other([glance] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::close(glance);
  });
  const auto dir = RunDir::Open(root_, "run", IfExists::kResume);
  EXPECT_TRUE(dir.ok()) << dir.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(RunDir::Open(root_, "run", IfExists::kResume).status())) << "it is held";
}

// The node of an accepted job may be faster than its launcher, and may end before its run begins.
TEST_F(RunDirTest, AJobsNodeLeavesTheReplacedRunAsideUntilItIsDropped) {
  for (const bool launcher_is_first : {true, false}) {
    MakeRun();
    auto launcher = RunDir::Open(root_, "run", IfExists::kReplace);
    ASSERT_TRUE(launcher->WriteFile("config.yaml", "run: {other: true}").ok());
    ASSERT_TRUE(launcher->HandOver().ok());
    for (int start = 0; start < 2; ++start) {
      const auto node = RunDir::OpenInJob(root_, "run");
      ASSERT_TRUE(node.ok()) << node.status();
      EXPECT_FALSE(node->existed());
      EXPECT_FALSE(launcher->TakeBack().ok()) << "a node holds the run";
    }
    EXPECT_TRUE(launcher->replaces());
    EXPECT_EQ(Contents()["config.yaml"], "run: {other: true}");
    const auto node = RunDir::OpenInJob(root_, "run");
    const auto role = RunDir::Attach(root_, "run");
    for (const bool drops_launcher : {launcher_is_first, !launcher_is_first}) {
      EXPECT_TRUE((drops_launcher ? launcher->DropReplaced() : role->DropReplaced()).ok());
      EXPECT_EQ(Files(), 1) << "the new config.yaml";
    }
    fs::remove_all(root_ + "/run");
  }
}

TEST_F(RunDirTest, AJobsNodeGoesOnWithARunThatReplacesNone) {
  MakeRun();
  const std::map<std::string, std::string> before = Contents();
  ASSERT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->HandOver().ok());
  EXPECT_TRUE(RunDir::OpenInJob(root_, "run")->existed());
  EXPECT_EQ(Contents(), before);
}

// Its launcher died, or does not know whether the job was accepted; no job is there by the next start.
TEST_F(RunDirTest, TheNextStartPutsTheRunBackThatNoJobHasReplaced) {
  MakeRun();
  const std::map<std::string, std::string> before = Contents();
  ASSERT_TRUE(RunDir::Open(root_, "run", IfExists::kReplace)->HandOver().ok());
  EXPECT_EQ(Files(), static_cast<int>(before.size()) - 1) << "they are set aside, and the format is not counted";
  EXPECT_FALSE(fs::exists(Path("metrics.jsonl")));
  for (const IfExists here : {IfExists::kFail, IfExists::kResume, IfExists::kReplace}) {
    const auto rejected = RunDir::Open(root_, "run", here);
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected.status())) << "a job may be in its queue: " << rejected.status();
  }
  EXPECT_FALSE(fs::exists(Path("metrics.jsonl")));
  EXPECT_TRUE(RunDir::OpenForJob(root_, "run", IfExists::kResume)->existed());
  EXPECT_EQ(Contents(), before);
}

TEST_F(RunDirTest, OneLauncherAtATimeSubmitsAJob) {
  MakeRun();
  {
    const auto first = LaunchLock::Acquire(root_, "run");
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(absl::IsFailedPrecondition(LaunchLock::Acquire(root_, "run").status()));
    EXPECT_TRUE(RunDir::OpenInJob(root_, "run").ok()) << "the job's node";
    EXPECT_TRUE(RunDir::OpenForJob(root_, "run", IfExists::kReplace)->HandOver().ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(LaunchLock::Acquire(root_, "run").status())) << "it moved with the old run";
  }
  EXPECT_TRUE(LaunchLock::Acquire(root_, "run").ok());
}

// The launcher removes the replaced run while its job begins.
TEST_F(RunDirTest, AJobsNodeLeavesARemovalToItsLauncher) {
  MakeRun();
  fs::create_directories(Path(".ingot-removed/pool"));
  EXPECT_TRUE(RunDir::OpenInJob(root_, "run").ok());
  EXPECT_TRUE(fs::exists(Path(".ingot-removed/pool")));
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume).ok());
  EXPECT_FALSE(fs::exists(Path(".ingot-removed")));
}

// Nodes that a user starts by hand under a job's launcher.
TEST_F(RunDirTest, AJobsNodePutsBackWhatNoSubmissionLeft) {
  MakeRun();
  const std::map<std::string, std::string> before = Contents();
  RunDir::Open(root_, "run", IfExists::kReplace)->LeaveReplaced();
  EXPECT_FALSE(fs::exists(Path("metrics.jsonl")));
  EXPECT_TRUE(RunDir::OpenInJob(root_, "run")->existed());
  EXPECT_EQ(Contents(), before);
  fs::create_directories(Path(".ingot-replacing"));
  fs::rename(Path("metrics.jsonl"), Path(".ingot-replacing/metrics.jsonl"));  // a launcher died in the middle
  EXPECT_TRUE(RunDir::OpenInJob(root_, "run")->existed());
  EXPECT_EQ(Contents(), before);
}

TEST_F(RunDirTest, AStartBesideOtherNodesLeavesTheReplacedRunAsideAndTheirFilesAlone) {
  MakeRun();
  std::map<std::string, std::string> before = Contents();
  std::string kept;
  {
    auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
    dir->LeaveReplaced();
    kept = dir->replaced();
    std::ofstream(dir->logs() + "/rollout-0.log") << "of another node";
  }
  EXPECT_EQ(Contents()["logs/rollout-0.log"], "of another node");
  EXPECT_TRUE(fs::exists(kept + "/metrics.jsonl"));
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  before["logs/failed-start/rollout-0.log"] = "of another node";
  EXPECT_EQ(Contents(), before);
}

TEST_F(RunDirTest, AStartThatFailedBeforeTheRunBeganLeavesTheNameFree) {
  for (const char* begun : {"checkpoints/step-00000000", "stages/sft", "metrics.jsonl", "warm_start/metrics.jsonl"}) {
    for (const IfExists next : {IfExists::kFail, IfExists::kResume}) {
      const auto dir = RunDir::Open(root_, "run", next);
      ASSERT_TRUE(dir.ok()) << dir.status();
      EXPECT_FALSE(dir->existed());
      ASSERT_TRUE(dir->WriteFile("config.yaml", "run: {}").ok());
      std::ofstream(dir->metrics()) << "";
    }
    fs::create_directories(fs::path(Path(begun)).parent_path());
    std::ofstream(Path(begun)) << "{}";
    EXPECT_EQ(RunDir::Open(root_, "run", IfExists::kFail).status().code(), absl::StatusCode::kAlreadyExists) << begun;
    EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed()) << begun;
    fs::remove_all(root_ + "/run");
  }
}

TEST_F(RunDirTest, ACollectionIsNotOverwritten) {
  {
    const auto dir = RunDir::Open(root_, "run", IfExists::kFail);
    ASSERT_TRUE(dir.ok()) << dir.status();
    ASSERT_TRUE(dir->WriteFile("config.yaml", "run: {}").ok());
    ASSERT_TRUE(dir->WriteFile("collection.json", "{}").ok());
  }
  EXPECT_EQ(RunDir::Open(root_, "run", IfExists::kFail).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  EXPECT_FALSE(RunDir::Open(root_, "run", IfExists::kReplace)->existed());
}

// Somebody removed the configuration. The checkpoints are a run all the same, and nothing of it is overwritten.
TEST_F(RunDirTest, ARunWhoseConfigurationIsGoneIsARun) {
  MakeRun();
  fs::remove(Path("config.yaml"));
  const int files = Files();
  EXPECT_EQ(RunDir::Open(root_, "run", IfExists::kFail).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  const absl::Status replaced = RunDir::Open(root_, "run", IfExists::kReplace).status();
  EXPECT_EQ(replaced.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(replaced.message().find("config.yaml is gone"), std::string::npos) << replaced;
  EXPECT_EQ(Files(), files);
}

TEST_F(RunDirTest, AFolderThatHoldsNoRunIsNotEmptied) {
  fs::create_directories(root_ + "/run");
  std::ofstream(Path("notes.txt")) << "mine";
  EXPECT_FALSE(RunDir::Open(root_, "run", IfExists::kReplace)->existed());
  EXPECT_TRUE(fs::exists(Path("notes.txt")));
}

// Whoever keeps notes in a run's folder may name them as they like.
TEST_F(RunDirTest, AUsersFoldersStayAndDisturbNothing) {
  MakeRun();
  for (const char* name : {"replaced", "replacing", "removed"}) {
    fs::create_directories(Path(name));
    std::ofstream(Path(name) + "/notes.txt") << "mine";
  }
  const int files = Files();
  EXPECT_EQ(RunDir::Open(root_, "run", IfExists::kFail).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kReplace).ok());
  EXPECT_EQ(Files(), files);
}

// A process that is killed before its run begins leaves the old run, which the next start finds whole.
TEST_F(RunDirTest, TheNextStartPutsTheRunOfAKilledReplacementBack) {
  for (const IfExists next : {IfExists::kReplace, IfExists::kResume}) {
    MakeRun();
    const int files = Files();
    const pid_t child = ::fork();
    if (child == 0) {
      const auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
      ::_exit(dir.ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    EXPECT_FALSE(fs::exists(Path("metrics.jsonl")));
    {
      const auto dir = RunDir::Open(root_, "run", next);
      EXPECT_EQ(dir->existed(), next == IfExists::kResume);
    }
    EXPECT_EQ(Files(), files);
    fs::remove_all(root_ + "/run");
  }
}

// Half of the run's files are set aside, and half are not.
TEST_F(RunDirTest, AMoveThatWasCutShortIsMended) {
  MakeRun();
  const int files = Files();
  fs::create_directories(Path(".ingot-replacing"));
  fs::rename(Path("pool"), Path(".ingot-replacing/pool"));
  fs::rename(Path("config.yaml"), Path(".ingot-replacing/config.yaml"));
  EXPECT_TRUE(RunDir::Open(root_, "run", IfExists::kResume)->existed());
  EXPECT_TRUE(fs::exists(Path("pool/0")));
  EXPECT_FALSE(fs::exists(Path(".ingot-replacing")));
  EXPECT_EQ(Files(), files);
}

// A removal that is killed at any moment leaves the whole run or, to the next start, nothing of it.
TEST_F(RunDirTest, TheNextStartCompletesAKilledRemoval) {
  int interrupted = 0;
  for (const IfExists next : {IfExists::kFail, IfExists::kReplace, IfExists::kResume}) {
    for (int left = 2 * kFiles; left > 0; left -= 150) {
      MakeRun();
      const int files = Files();
      const pid_t child = ::fork();
      if (child == 0) {
        const auto dir = RunDir::Open(root_, "run", IfExists::kReplace);
        ::_exit(dir->DropReplaced().ok() ? 0 : 1);
      }
      bool running = true;
      while (running && Files() > left) running = ::waitpid(child, nullptr, WNOHANG) == 0;
      if (running) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
      }
      interrupted += Files() > 0 && Files() < files;
      {
        const auto dir = RunDir::Open(root_, "run", next);
        if (dir.ok() && !dir->existed() && !dir->replaces()) {
          EXPECT_EQ(Files(), 0);
        } else {
          EXPECT_EQ(Files(), files);
        }
      }
      fs::remove_all(root_ + "/run");
    }
  }
  EXPECT_GT(interrupted, 0);
}

}  // namespace
}  // namespace ingot::app
