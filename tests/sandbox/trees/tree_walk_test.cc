// Folders that an agent may make to escape whoever counts, takes over or removes them.
#include "sandbox/trees/tree_walk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "base/open_file.h"
#include "sandbox/disk_watch.h"
#include "sandbox/spawn.h"
#include "sandbox/test_sandbox.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Notes what it meets.
class Notes : public TreeVisitor {
 public:
  absl::Status File(int /*folder*/, const std::string& name, const struct stat& /*info*/) override {
    files.push_back(name);
    if (at_file) at_file(name);
    return absl::OkStatus();
  }
  absl::Status Enter(int /*parent*/, const std::string& name, const struct stat& /*info*/) override {
    entered.push_back(fs::path(name).filename());
    return absl::OkStatus();
  }
  absl::Status Left(int /*parent*/, const std::string& name) override {
    left.push_back(fs::path(name).filename());
    return absl::OkStatus();
  }
  absl::Status Failed(const std::string& name) override {
    failed.push_back(name);
    return absl::OkStatus();
  }

  std::function<void(const std::string& name)> at_file;
  std::vector<std::string> files, entered, left, failed;
};

class TreeWalkTest : public testing::Test {
 protected:
  TreeWalkTest() : top_(folder_.path() + "/top") { fs::create_directory(top_); }

  void Make(const std::string& name, size_t bytes = 0) const {
    fs::create_directories(fs::path(top_ + "/" + name).parent_path());
    std::ofstream(top_ + "/" + name) << std::string(bytes, 'x');
  }
  // A file below `levels` folders, in a path that no call takes.
  void MakeDeep(int levels, const std::string& bytes) const {
    const std::string name(100, 'd');
    Fd at(open(top_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < levels; ++i) {
      ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0700), 0);
      at = Fd(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    const Fd file(openat(at.get(), "leaf", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  const TestFolder folder_;
  const std::string top_;
};

// The process may have few descriptors, as long as this lives.
class FewDescriptors {
 public:
  FewDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST_F(TreeWalkTest, MeetsEverythingOnceAndLeavesFoldersAfterTheirContents) {
  Make("a/b/one");
  Make("a/two");
  Make("c/three");
  fs::create_symlink(folder_.path(), top_ + "/c/link");
  Notes notes;
  ASSERT_TRUE(WalkTree(top_, notes).ok());
  EXPECT_THAT(notes.files, UnorderedElementsAre("one", "two", "three", "link"));
  EXPECT_THAT(notes.entered, UnorderedElementsAre("top", "a", "b", "c"));
  EXPECT_EQ(notes.entered.front(), "top");
  EXPECT_EQ(notes.left.back(), "top");
  EXPECT_LT(std::ranges::find(notes.left, "b"), std::ranges::find(notes.left, "a"));
  EXPECT_TRUE(notes.failed.empty());
}

// An agent that moves the folder in which the walk is would otherwise lead it to what lies beside the new place.
TEST_F(TreeWalkTest, AFolderThatMovesAwayLeadsTheWalkNowhereElse) {
  Make("a/b/c/inner");
  Make("a/last");
  fs::create_directories(folder_.path() + "/outside");
  std::ofstream(folder_.path() + "/outside/precious") << "keep";
  fs::create_directories(folder_.path() + "/outside/more");
  Notes notes;
  notes.at_file = [&](const std::string& name) {
    if (name == "inner") fs::rename(top_ + "/a/b", folder_.path() + "/outside/b");
  };
  ASSERT_TRUE(WalkTree(top_, notes).ok());
  EXPECT_THAT(notes.files, UnorderedElementsAre("last", "inner"));
  EXPECT_THAT(notes.left, ElementsAre("c", "a", "top"));
  EXPECT_FALSE(notes.failed.empty());
}

// One that may be listed and not passed would cost a way from the top each.
TEST_F(TreeWalkTest, AFolderThatCannotBePassedIsLeftOutAtOnce) {
  for (const char* const name : {"a/shut", "a/open/file", "a/also_shut"}) Make(std::string(name) + "/x");
  for (const char* const name : {"/a/shut", "/a/also_shut"}) ASSERT_EQ(chmod((top_ + name).c_str(), 0400), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    ASSERT_EQ(seteuid(65534), 0);
    EXPECT_FALSE(Fd(open((top_ + "/a/shut/x").c_str(), O_RDONLY | O_CLOEXEC)).valid());
  }
  Notes notes;
  const absl::Status walked = WalkTree(top_, notes);
  if (getuid() == 0) {
    ASSERT_EQ(seteuid(0), 0);
  }
  for (const char* const name : {"/a/shut", "/a/also_shut"}) chmod((top_ + name).c_str(), 0700);
  EXPECT_TRUE(walked.ok());
  EXPECT_THAT(notes.failed, UnorderedElementsAre("shut", "also_shut"));
  EXPECT_THAT(notes.files, ElementsAre("x"));
}

// Every file of a long chain leads the walk away; it must end all the same.
TEST_F(TreeWalkTest, FoldersThatMoveAllTheTimeEndTheWalk) {
  constexpr int kLevels = 800;
  MakeDeep(kLevels, "text");
  const std::string name(100, 'd');
  Fd at(open(top_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kLevels; ++i) at = Fd(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string away = folder_.path() + "/away";
  fs::create_directory(away);
  const Fd outside(open(away.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 2000; ++i) {
    const std::string one = absl::StrCat("m", i);
    ASSERT_EQ(mkdirat(at.get(), one.c_str(), 0700), 0);
    const Fd inner(openat(at.get(), one.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(Fd(openat(inner.get(), one.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid());
  }
  Notes notes;
  notes.at_file = [&](const std::string& file) {
    if (file.starts_with("m")) renameat(at.get(), file.c_str(), outside.get(), file.c_str());
  };
  EXPECT_TRUE(absl::IsResourceExhausted(WalkTree(top_, notes)));
  EXPECT_TRUE(RemoveTree(folder_.path() + "/top").ok());
}

// The mode of what a link names is not the agent's to change, whenever the link comes to stand in the folder's place.
TEST_F(TreeWalkTest, NoModeIsChangedThroughALink) {
  const std::string victim = folder_.path() + "/victim";
  Make("folder/file");
  std::ofstream(victim) << "text";
  fs::create_symlink(victim, top_ + "/link");
  for (const std::string& path : {victim, top_, top_ + "/folder", top_ + "/folder/file", folder_.path()}) {
    ASSERT_TRUE(geteuid() != 0 || chown(path.c_str(), 65534, 65534) == 0);
  }
  ASSERT_EQ(chmod(victim.c_str(), 0600), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const Fd folder(open((top_ + "/folder").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::atomic<bool> ends = false;
  std::thread agent([&] {
    while (!ends) {
      fchmod(folder.get(), 0077);  // a walk may have left it open
      renameat2(AT_FDCWD, (top_ + "/folder").c_str(), AT_FDCWD, (top_ + "/link").c_str(), RENAME_EXCHANGE);
    }
  });
  struct stat info = {};
  for (int i = 0; i < 20'000 && (info.st_mode & 0777) != 0577; ++i) {
    DiskWatch(top_, {.bytes = 1 << 20}).FaultAtEnd();
    EXPECT_EQ(stat(victim.c_str(), &info), 0);
  }
  ends = true;
  agent.join();
  if (getuid() == 0) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// With openat2, and as on a kernel before 5.6.
TEST_F(TreeWalkTest, NothingOutsideIsOpenedBelowAFolder) {
  Make("a/b/file");
  fs::create_directories(folder_.path() + "/outside");
  std::ofstream(folder_.path() + "/outside/file") << "text";
  fs::create_directory_symlink(folder_.path() + "/outside", top_ + "/a/link");
  fs::create_symlink(top_ + "/a/b/file", top_ + "/last");
  const Fd top(open(top_.c_str(), base::kOpenFolder));
  const auto count = [&] {
    int opened = 0;
    for (const char* const path : {"a/link/file", "last", "../outside/file", "a/../../outside/file"}) {
      opened += base::OpenBeneath(top.get(), path, O_RDONLY | O_CLOEXEC, base::PathLinks::kNone).valid() ? 1 : 0;
    }
    return opened +
           (base::OpenBeneath(top.get(), "a/b/file", O_RDONLY | O_CLOEXEC, base::PathLinks::kNone).valid() ? 100 : 0);
  };
  EXPECT_EQ(count(), 100);
  const pid_t old = fork();
  if (old == 0) {
    sock_filter rules[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat2},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{4, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(1);
    _exit(count());
  }
  int status = 0;
  waitpid(old, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 100);
}

TEST_F(TreeWalkTest, RemovesFoldersDeeperThanPathsAndDescriptorsReach) {
  MakeDeep(1000, "text");
  Make("beside/file");
  fs::create_symlink(folder_.path() + "/kept", top_ + "/link");
  std::ofstream(folder_.path() + "/kept") << "text";
  const FewDescriptors few;
  const absl::Status removed = RemoveTree(top_);
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_FALSE(fs::exists(top_));
  EXPECT_TRUE(fs::exists(folder_.path() + "/kept"));
  EXPECT_TRUE(RemoveTree(top_).ok()) << "nothing is there";
}

TEST_F(TreeWalkTest, WhatCannotBeRemovedIsNamedAndTheRestIsGone) {
  Make("a/file");
  Make("b/file");
  if (geteuid() != 0) GTEST_SKIP() << "a root's folder is needed";
  ASSERT_EQ(chown(top_.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  for (const char* const name : {"/b", "/b/file"}) ASSERT_EQ(chown((top_ + name).c_str(), 65534, 65534), 0);
  ASSERT_EQ(seteuid(65534), 0);
  const absl::Status removed = RemoveTree(top_);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(absl::IsUnavailable(removed)) << removed;
  EXPECT_THAT(std::string(removed.message()), testing::HasSubstr("'file'"));
  EXPECT_TRUE(fs::exists(top_ + "/a/file"));
  EXPECT_FALSE(fs::exists(top_ + "/b"));
}

TEST_F(TreeWalkTest, DiskIsCountedWhereverItHides) {
  constexpr int64_t kLimit = 32 << 20;
  MakeDeep(1000, std::string(kLimit / 2, 'x'));
  const FewDescriptors few;
  EXPECT_EQ(DiskWatch(top_, {.bytes = kLimit}).FaultAtEnd(), std::nullopt);
  EXPECT_EQ(DiskWatch(top_, {.bytes = kLimit / 2}).FaultAtEnd(), Ending::kDiskFull) << "a deep file";
  EXPECT_EQ(DiskWatch(top_, {.files = 1001}).FaultAtEnd(), std::nullopt);
  EXPECT_EQ(DiskWatch(top_, {.files = 1000}).FaultAtEnd(), Ending::kDiskFull);
}

TEST_F(TreeWalkTest, DiskIsCountedInAFolderThatItsUserHasClosed) {
  Make("shut/large", 1 << 20);
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    for (const char* const name : {"", "/shut", "/shut/large"})
      ASSERT_EQ(chown((top_ + name).c_str(), 65534, 65534), 0);
    ASSERT_EQ(seteuid(65534), 0);
  }
  EXPECT_EQ(chmod((top_ + "/shut").c_str(), 0), 0);
  const auto none = DiskWatch(top_, {.bytes = 1 << 22}).FaultAtEnd();
  struct stat info = {};
  EXPECT_EQ(stat((top_ + "/shut").c_str(), &info), 0);
  const auto fault = DiskWatch(top_, {.bytes = 1 << 19}).FaultAtEnd();
  chmod((top_ + "/shut").c_str(), 0700);
  if (getuid() == 0) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(none, std::nullopt);
  EXPECT_EQ(fault, Ending::kDiskFull);
  EXPECT_EQ(info.st_mode & 0777, 0u) << "it stays closed";
}

}  // namespace
}  // namespace ingot::sandbox
