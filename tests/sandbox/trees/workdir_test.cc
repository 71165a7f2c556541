#include "sandbox/trees/workdir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

class WorkDirTest : public testing::Test {
 protected:
  WorkDirTest() {
    char name[] = "/tmp/ingot-workdir-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~WorkDirTest() override { fs::remove_all(root_); }
  int Entries() const { return std::distance(fs::directory_iterator(root_), fs::directory_iterator()); }
  std::string root_;
};

TEST_F(WorkDirTest, IsPrivateAndGoesWithItsContents) {
  {
    const auto folder = WorkDir::Create(root_ + "/deep/root");
    ASSERT_TRUE(folder.ok()) << folder.status();
    struct stat info;
    ASSERT_EQ(stat(folder->home().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700);
    ASSERT_TRUE(folder->WriteFile("a/b/c.txt", "text").ok());
    EXPECT_EQ(*folder->ReadFile("a/b/c.txt", 100), "text");
  }
  EXPECT_TRUE(fs::is_empty(root_ + "/deep/root"));
}

TEST_F(WorkDirTest, RemovesWhatTheAgentMadeUnreadableAndFollowsNoLink) {
  const std::string precious = root_ + "/precious";
  std::ofstream(precious) << "keep";
  {
    const auto folder = WorkDir::Create(root_ + "/r");
    fs::create_directories(folder->work() + "/locked/inner");
    std::ofstream(folder->work() + "/locked/inner/f") << "x";
    fs::create_symlink(root_, folder->work() + "/link");
    fs::permissions(folder->work() + "/locked/inner", fs::perms::none);
    fs::permissions(folder->work() + "/locked", fs::perms::none);
  }
  EXPECT_TRUE(fs::is_empty(root_ + "/r"));
  EXPECT_TRUE(fs::exists(precious));
}

TEST_F(WorkDirTest, AClearedFolderIsItsOwnersAloneAndNoOtherTakesItsPlace) {
  const auto owner = geteuid() == 0 ? std::optional<uid_t>(65534) : std::nullopt;
  const auto folder = WorkDir::Create(root_, owner);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string logs = folder->path() + "/logs";
  EXPECT_TRUE(absl::IsNotFound(folder->ClearFolder("logs", "verifier")));
  ASSERT_TRUE(folder->MakeFolder(logs).ok());
  fs::create_directories(logs + "/verifier/deep");
  fs::permissions(logs, fs::perms::all);
  ASSERT_TRUE(folder->ClearFolder("logs", "verifier").ok());
  EXPECT_TRUE(fs::is_empty(logs + "/verifier"));
  for (const std::string& each : {logs, logs + "/verifier"}) {
    struct stat info;
    ASSERT_EQ(stat(each.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << each;
    EXPECT_EQ(info.st_uid, owner.value_or(geteuid())) << each;
  }
  fs::create_directories(root_ + "/elsewhere/verifier");
  fs::remove_all(logs);
  fs::create_directory_symlink(root_ + "/elsewhere", logs);
  EXPECT_FALSE(folder->ClearFolder("logs", "verifier").ok());
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere/verifier"));
  if (geteuid() != 0) return;
  fs::remove(logs);
  fs::create_directories(logs);
  EXPECT_TRUE(absl::IsFailedPrecondition(folder->ClearFolder("logs", "verifier"))) << "it is root's";
}

TEST_F(WorkDirTest, ScriptsBecomeExecutable) {
  const auto folder = WorkDir::Create(root_);
  ASSERT_TRUE(folder->WriteFile("run", "#!/bin/sh\n").ok());
  ASSERT_TRUE(folder->WriteFile("data", "x").ok());
  EXPECT_EQ(access((folder->work() + "/run").c_str(), X_OK), 0);
  struct stat info;
  stat((folder->work() + "/data").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0111, 0u);
}

TEST_F(WorkDirTest, PathsOutsideAreRejected) {
  const auto folder = WorkDir::Create(root_);
  for (const char* path : {"", "/etc/x", "../x", "a/../../x", "a/", ".", "a/."}) {
    EXPECT_EQ(folder->WriteFile(path, "x").code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(folder->ReadFile(path, 9).status().code(), absl::StatusCode::kInvalidArgument) << path;
  }
}

TEST_F(WorkDirTest, LinksAnAgentMadeAreNotFollowed) {
  const auto folder = WorkDir::Create(root_);
  std::ofstream(root_ + "/secret") << "s";
  fs::create_symlink(root_ + "/secret", folder->work() + "/answer");
  fs::create_symlink(root_, folder->work() + "/dir");
  EXPECT_FALSE(folder->ReadFile("answer", 9).ok());
  EXPECT_FALSE(folder->ReadFile("dir/secret", 9).ok());
  EXPECT_FALSE(folder->WriteFile("dir/new", "x").ok());
}

TEST_F(WorkDirTest, ReadingNeitherBlocksNorGrows) {
  const auto folder = WorkDir::Create(root_);
  ASSERT_EQ(mkfifo((folder->work() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(folder->ReadFile("fifo", 9).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(folder->WriteFile("long", "0123456789").ok());
  EXPECT_EQ(folder->ReadFile("long", 9).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*folder->ReadFile("long", 10), "0123456789");
  EXPECT_EQ(folder->ReadFile("none", 9).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(WorkDirTest, AnOwnerHasItsFoldersAndNothingAroundThem) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  constexpr uid_t kOwner = 12345;
  auto folder = WorkDir::Create(root_, kOwner);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(folder->WriteFile("a/b/c", "text").ok());
  struct stat info;
  for (const std::string& path : {folder->home(), folder->work(), folder->tmp(), folder->AddFolder("own").value()}) {
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, kOwner) << path;
    EXPECT_EQ(info.st_mode & 0777, 0700) << path;
  }
  for (const char* path : {"/a", "/a/b", "/a/b/c"}) {
    ASSERT_EQ(stat((folder->work() + path).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, kOwner) << path;
    EXPECT_EQ(info.st_gid, kOwner) << path;
  }
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_gid, kOwner);
  EXPECT_EQ(info.st_mode & 0777, 0710);
  const std::string kept = folder->Detach("ep1").value();
  ASSERT_EQ(stat(kept.c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, 0u);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST_F(WorkDirTest, AFileThatTheOwnerLinkedToIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto folder = WorkDir::Create(root_, 65534);
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::ofstream(root_ + "/secret") << "of root";
  fs::create_hard_link(root_ + "/secret", folder->work() + "/linked");
  const absl::Status rejected = folder->ReadFile("linked", 100).status();
  EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), testing::HasSubstr("linked belongs to uid 0"));
}

TEST_F(WorkDirTest, AFolderIsFilledInPlaceOfWhatALinkLeadsTo) {
  const auto folder = WorkDir::Create(root_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const char* const file : {"/outside/kept", "/source/a/file"}) {
    fs::create_directories(fs::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << "text";
  }
  ASSERT_TRUE(folder->MakeFolder(folder->path() + "/tests").ok());
  fs::create_symlink(root_ + "/outside", folder->path() + "/tests/link");
  ASSERT_TRUE(folder->Fill("tests", root_ + "/source").ok());
  EXPECT_TRUE(fs::exists(folder->path() + "/tests/a/file"));
  EXPECT_FALSE(fs::exists(folder->path() + "/tests/link"));
  fs::rename(folder->path() + "/tests", folder->path() + "/away");
  fs::create_symlink(root_ + "/outside", folder->path() + "/tests");
  EXPECT_FALSE(folder->Fill("tests", root_ + "/source").ok());
  EXPECT_TRUE(fs::exists(root_ + "/outside/kept"));
  EXPECT_TRUE(absl::IsNotFound(folder->Fill("away", root_ + "/nowhere")));
}

TEST_F(WorkDirTest, AddedFoldersAreNewAndGoWithIt) {
  std::string first, second;
  {
    auto folder = WorkDir::Create(root_);
    first = folder->AddFolder("own").value();
    second = folder->AddFolder("own").value();
    EXPECT_NE(first, second);
    EXPECT_TRUE(std::filesystem::is_empty(first));
    EXPECT_TRUE(first.starts_with(folder->path() + "/own-"));
  }
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(Entries(), 0);
}

TEST_F(WorkDirTest, AFileBesideWorkReplacesWhateverTheAgentPutThere) {
  auto folder = WorkDir::Create(root_);
  std::ofstream(root_ + "/other") << "untouched";
  ASSERT_EQ(mkfifo((folder->path() + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(root_ + "/other", folder->path() + "/link");
  for (const char* name : {"pipe", "link", "new"}) {
    const absl::Status written = folder->WriteNextToWork(name, "said");
    ASSERT_TRUE(written.ok()) << written;
    std::string content;
    std::ifstream(folder->path() + "/" + name) >> content;
    EXPECT_EQ(content, "said") << name;
  }
  std::string other;
  std::ifstream(root_ + "/other") >> other;
  EXPECT_EQ(other, "untouched");
}

TEST_F(WorkDirTest, DetachRenamesAndReplacesAnOlderFolder) {
  for (int i = 0; i < 2; ++i) {
    auto folder = WorkDir::Create(root_);
    ASSERT_TRUE(folder->WriteFile("f", std::to_string(i)).ok());
    const auto kept = folder->Detach("ep/1");
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(*kept, root_ + "/kept-ep_1");
  }
  std::string content;
  std::ifstream(root_ + "/kept-ep_1/work/f") >> content;
  EXPECT_EQ(content, "1");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(WorkDirTest, StaleFoldersOfDeadProcessesAreRemovedAndNoOthers) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  fs::create_directories(root_ + "/live-" + std::to_string(dead) + "-123-0/work");
  fs::create_directories(root_ + "/live-" + std::to_string(getpid()) +
                         "-123-0");  // of an earlier process with this pid
  fs::create_directories(root_ + "/live-1-123-0");
  fs::create_directories(root_ + "/kept-x");
  fs::create_directories(root_ + "/live-");
  const auto mine = WorkDir::Create(root_);
  EXPECT_EQ(RemoveStale(root_), 2);
  EXPECT_TRUE(fs::exists(mine->work()));
  EXPECT_TRUE(fs::exists(root_ + "/live-1-123-0"));
  EXPECT_TRUE(fs::exists(root_ + "/kept-x"));
  EXPECT_EQ(RemoveStale(root_ + "/none"), 0);
}

TEST_F(WorkDirTest, AFullOrForbiddenRootIsAnError) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_FALSE(WorkDir::Create(root_ + "/file/below").ok());
}

}  // namespace
}  // namespace ingot::sandbox
