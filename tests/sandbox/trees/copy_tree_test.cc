// Trees that an agent may leave to whoever takes its files over.
#include "sandbox/trees/copy_tree.h"

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
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/open_file.h"
#include "sandbox/sandbox_fault.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

class CopyTreeTest : public testing::Test {
 protected:
  CopyTreeTest() : from_(folder_.path() + "/from"), to_(folder_.path() + "/to") {
    fs::create_directory(from_);
    fs::create_directory(to_);
  }
  static struct stat Look(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  static absl::Status Copy(const std::string& from, const std::string& to, const TreeCopy& how) {
    const Fd target(open(to.c_str(), base::kOpenFolder));
    return CopyTree(AT_FDCWD, from, target.get(), how);
  }
  static absl::Status Link(const std::string& from, const std::string& to) { return Copy(from, to, {.links = true}); }

  const TestFolder folder_;
  const std::string from_, to_;
};

TEST_F(CopyTreeTest, FilesAreLinkedAndFoldersAreAlike) {
  fs::create_directories(from_ + "/a/b");
  std::ofstream(from_ + "/a/b/file") << "text";
  fs::create_symlink("nowhere", from_ + "/a/link");
  ASSERT_EQ(mkfifo((from_ + "/pipe").c_str(), 0600), 0);
  ASSERT_EQ(setxattr((from_ + "/a").c_str(), "user.mark", "y", 1, 0), 0);
  ASSERT_EQ(chmod((from_ + "/a/b").c_str(), 01753), 0);
  ASSERT_EQ(chmod(from_.c_str(), 0710), 0);
  ASSERT_TRUE(Link(from_, to_).ok());
  EXPECT_EQ(Look(to_ + "/a/b/file").st_ino, Look(from_ + "/a/b/file").st_ino);
  EXPECT_EQ(Look(to_ + "/pipe").st_ino, Look(from_ + "/pipe").st_ino);
  EXPECT_EQ(fs::read_symlink(to_ + "/a/link"), "nowhere");
  for (const char* const each : {"", "/a", "/a/b"}) {
    EXPECT_EQ(Look(to_ + each).st_mode, Look(from_ + each).st_mode) << each;
    EXPECT_EQ(Look(to_ + each).st_mtim.tv_nsec, Look(from_ + each).st_mtim.tv_nsec) << each;
  }
  char mark = 0;
  EXPECT_EQ(getxattr((to_ + "/a").c_str(), "user.mark", &mark, 1), 1);
  EXPECT_EQ(mark, 'y');
}

TEST_F(CopyTreeTest, ATreeDeeperThanAnyPathIsTakenOver) {
  const std::string name(200, 'd');
  constexpr int kDepth = 40;
  Fd at(open(from_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0700), 0);
    at = Fd(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ASSERT_TRUE(Fd(openat(at.get(), "leaf", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid());
  const absl::Status linked = Link(from_, to_);
  ASSERT_TRUE(linked.ok()) << linked;
  at = Fd(open(to_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kDepth; ++i) at = Fd(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat leaf;
  ASSERT_EQ(fstatat(at.get(), "leaf", &leaf, 0), 0);
  EXPECT_EQ(leaf.st_nlink, 2u);
}

// As one that has as many links as it can have.
TEST_F(CopyTreeTest, AFileThatCannotBeLinkedIsCopiedOnceWithoutItsHole) {
  std::string far = "/dev/shm/ingot-link-tree-XXXXXX";
  if (mkdtemp(far.data()) == nullptr || Look(far).st_dev == Look(to_).st_dev) GTEST_SKIP() << "no second file system";
  fs::create_directory(far + "/a");
  std::ofstream(far + "/file") << "text";
  ASSERT_EQ(truncate((far + "/file").c_str(), int64_t{1} << 40), 0);
  ASSERT_EQ(chmod((far + "/file").c_str(), 0640), 0);
  for (const char* const name : {"/second", "/a/third"}) fs::create_hard_link(far + "/file", far + name);
  fs::create_symlink("nowhere", far + "/link");
  ASSERT_EQ(mkfifo((far + "/pipe").c_str(), 0600), 0);
  const absl::Status linked = Link(far, to_);
  const struct stat source = Look(far + "/file");
  fs::remove_all(far);
  ASSERT_TRUE(linked.ok()) << linked;
  const struct stat copy = Look(to_ + "/file");
  EXPECT_EQ(copy.st_size, int64_t{1} << 40);
  EXPECT_LT(copy.st_blocks, 2048);
  EXPECT_EQ(copy.st_mode, source.st_mode);
  EXPECT_EQ(copy.st_mtim.tv_sec, source.st_mtim.tv_sec);
  EXPECT_EQ(copy.st_nlink, 3u);
  EXPECT_EQ(Look(to_ + "/a/third").st_ino, copy.st_ino);
  std::string text(4, '\0');
  std::ifstream(to_ + "/second").read(text.data(), 4);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(fs::read_symlink(to_ + "/link"), "nowhere");
  EXPECT_TRUE(S_ISFIFO(Look(to_ + "/pipe").st_mode));
}

TEST_F(CopyTreeTest, FilesAtFaultAreToldFromADiskAtFault) {
  std::ofstream(from_ + "/file") << "text";
  std::ofstream(to_ + "/file") << "there";
  EXPECT_EQ(Link(from_, to_).code(), absl::StatusCode::kDataLoss);
}

// As on a machine whose processes have all the descriptors that they may have.
TEST_F(CopyTreeTest, AProcessWithoutDescriptorsIsNoFaultOfTheFiles) {
  const Fd parent(open(folder_.path().c_str(), base::kOpenFolder)), target(open(to_.c_str(), base::kOpenFolder));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status copied = CopyTree(parent.get(), "from", target.get(), {});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(copied.ok());
  EXPECT_FALSE(IsSandboxFault(copied)) << copied;
}

// A policy that lets whoever copies set no label: a filter that answers so stands in for it.
TEST_F(CopyTreeTest, ACopyMayLackLabelsThatAPolicyKeepsAndNothingElse) {
  for (const char* const name : {"security.ingot", "user.mark"}) {
    std::ofstream(from_ + "/file") << "text";
    if (setxattr((from_ + "/file").c_str(), name, "y", 1, 0) != 0) GTEST_SKIP() << "no attribute " << name;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      sock_filter rules[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                             {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_fsetxattr},
                             {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EACCES},
                             {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
      const sock_fprog program{4, rules};
      if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(9);
      _exit(static_cast<int>(Copy(from_, to_, {}).code()));
    }
    int status = 0;
    waitpid(child, &status, 0);
    const bool is_label = std::string(name).starts_with("security.");
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(is_label ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss))
        << name;
    fs::remove(from_ + "/file");
    fs::remove(to_ + "/file");
  }
}

// A folder may be closed to its own user, who is not root.
TEST_F(CopyTreeTest, AClosedFolderIsTakenOverAndStaysClosed) {
  fs::create_directory(from_ + "/closed");
  std::ofstream(from_ + "/closed/file") << "text";
  chmod((from_ + "/closed").c_str(), 0);
  const bool is_root = geteuid() == 0;
  if (is_root) {
    for (const std::string& each : {folder_.path(), from_, to_, from_ + "/closed", from_ + "/closed/file"})
      ASSERT_EQ(chown(each.c_str(), 65534, 65534), 0);
    ASSERT_TRUE(setegid(65534) == 0 && seteuid(65534) == 0);
  }
  const absl::Status linked = Link(from_, to_);
  if (is_root) {
    ASSERT_TRUE(seteuid(0) == 0 && setegid(0) == 0);
  }
  EXPECT_TRUE(linked.ok()) << linked;
  for (const std::string& each : {from_, to_}) {
    EXPECT_EQ(Look(each + "/closed").st_mode & 07777, 0u);
    chmod((each + "/closed").c_str(), 0700);
    EXPECT_EQ(Read(each + "/closed/file"), "text");
  }
}

TEST_F(CopyTreeTest, NamesOfOneFileStayNamesOfOneFile) {
  fs::create_directories(from_ + "/a/b");
  std::ofstream(from_ + "/a/b/file") << "text";
  fs::create_hard_link(from_ + "/a/b/file", from_ + "/same");
  fs::create_symlink("/etc", from_ + "/link");
  ASSERT_TRUE(Copy(from_, to_, {}).ok());
  EXPECT_NE(Look(to_ + "/same").st_ino, Look(from_ + "/same").st_ino);
  EXPECT_EQ(Look(to_ + "/same").st_ino, Look(to_ + "/a/b/file").st_ino);
  EXPECT_EQ(Read(to_ + "/same"), "text");
  EXPECT_EQ(fs::read_symlink(to_ + "/link"), "/etc");
}

// A hard link to a file that its maker cannot read is the one way that no walk by descriptors sees.
TEST_F(CopyTreeTest, FilesOfOtherUsersAreLeftOut) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::ofstream(folder_.path() + "/secret") << "of root";
  for (const char* const name : {"/own", "/also"}) {
    std::ofstream(from_ + name) << "own";
    ASSERT_EQ(chown((from_ + name).c_str(), 65534, 65534), 0);
  }
  fs::create_hard_link(folder_.path() + "/secret", from_ + "/linked");
  ASSERT_TRUE(Copy(from_, to_, {.only_of = 65534, .gives_to = 65533}).ok());
  EXPECT_FALSE(fs::exists(to_ + "/linked"));
  EXPECT_EQ(Look(to_ + "/own").st_uid, 65533u);
  EXPECT_EQ(Look(to_).st_uid, 65533u);
}

TEST_F(CopyTreeTest, AMergeReplacesWhatIsThereAndKeepsWhatIsNot) {
  for (const char* const file : {"/to/both/old", "/to/both/kept", "/to/file/x", "/to/opaque/gone", "/from/both/old",
                                 "/from/opaque/new", "/from/folder/y"}) {
    fs::create_directories(fs::path(folder_.path() + file).parent_path());
    std::ofstream(folder_.path() + file) << file;
  }
  std::ofstream(from_ + "/file") << "a file now";
  std::ofstream(to_ + "/folder") << "a file before";
  if (setxattr((from_ + "/opaque").c_str(), "user.overlay.opaque", "y", 1, 0) != 0) GTEST_SKIP() << "no attributes";
  const absl::Status merged = Copy(from_, to_, {.links = true, .merges = true});
  ASSERT_TRUE(merged.ok()) << merged;
  EXPECT_EQ(Read(to_ + "/both/old"), "/from/both/old");
  EXPECT_EQ(Read(to_ + "/both/kept"), "/to/both/kept");
  EXPECT_EQ(Read(to_ + "/file"), "a file now");
  EXPECT_EQ(Read(to_ + "/folder/y"), "/from/folder/y");
  EXPECT_FALSE(fs::exists(to_ + "/opaque/gone"));
  EXPECT_TRUE(fs::exists(to_ + "/opaque/new"));
}

}  // namespace
}  // namespace ingot::sandbox
