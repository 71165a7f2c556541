// Files without a name, which the processes of a sandbox keep where no walk through folders meets them.
#include "sandbox/disk_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

constexpr int64_t kFileBytes = 4 << 20;

// A process that does something and then waits until it is killed.
class Holder {
 public:
  explicit Holder(const std::function<void()>& act) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd ready(ends[0]);
    Fd done(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Nothing that another test of this process still holds.
      close_range(3, static_cast<unsigned>(done.get()) - 1, 0);
      close_range(static_cast<unsigned>(done.get()) + 1, ~0U, 0);
      act();
      Report(done.get());
      while (true) pause();
    }
    done.Reset();
    char byte = 0;
    EXPECT_EQ(read(ready.get(), &byte, 1), 1) << "the process does not hold what it should";
  }
  ~Holder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  static void Report(int fd) {
    if (write(fd, "x", 1) != 1) _exit(1);
  }
  pid_t pid_;
};

class DeletedFilesTest : public testing::Test {
 protected:
  // A new descriptor of a file that has no name any more.
  int Deleted() const {
    std::string name = folder_.path() + "/XXXXXX";
    const int fd = mkstemp(name.data());
    unlink(name.c_str());
    Fill(fd);
    return fd;
  }
  static void Fill(int fd) {
    const std::string bytes(kFileBytes, 'x');
    if (write(fd, bytes.data(), bytes.size()) != kFileBytes) _exit(1);
  }
  // What a watch says of a sandbox whose one process holds something. The limit lies between `files` files and one less.
  std::optional<Ending> Watch(const Holder& holder, int files) const {
    DiskWatch watch(folder_.path(), {.bytes = files * kFileBytes - kFileBytes / 2}, {.first = holder.pid(), .uid = {}});
    return watch.Fault(watch.next());
  }

  const TestFolder folder_;
};

TEST_F(DeletedFilesTest, AnUnlinkedFileCountsOnceForAllWhoHoldIt) {
  const Holder holder([this] {
    const int fd = Deleted();
    if (dup(fd) < 0) _exit(1);
    const pid_t holder_pid = getpid();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (getppid() == holder_pid) pause();
      _exit(0);  // the holder was killed before the prctl
    }
  });
  EXPECT_EQ(Watch(holder, 1), Ending::kDiskFull);
  EXPECT_EQ(Watch(holder, 2), std::nullopt);
}

TEST_F(DeletedFilesTest, AFileThatNeverHadANameCounts) {
  const Holder holder([this] {
    const int fd = open(folder_.path().c_str(), O_TMPFILE | O_RDWR, 0600);
    if (fd >= 0) Fill(fd);
  });
  EXPECT_EQ(Watch(holder, 1), Ending::kDiskFull);
}

TEST_F(DeletedFilesTest, AFileThatIsMappedWithoutADescriptorCounts) {
  const Holder holder([this] {
    const int fd = Deleted();
    if (mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) _exit(1);
    close(fd);
  });
  EXPECT_EQ(Watch(holder, 1), Ending::kDiskFull);
  EXPECT_EQ(Watch(holder, 2), std::nullopt);
}

// Of one page that is mapped the kernel tells root alone whose it is.
TEST_F(DeletedFilesTest, AMappedPageCountsAsItsWholeFile) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const Holder holder([this] {
    const int fd = Deleted();
    if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) _exit(1);
    close(fd);
  });
  EXPECT_EQ(Watch(holder, 1), Ending::kDiskFull);
}

TEST_F(DeletedFilesTest, TheDescriptorsOfAThreadOfItsOwnCount) {
  const Holder holder([this] {
    std::atomic<bool> holds = false;
    std::thread([&] {
      unshare(CLONE_FILES);
      Deleted();
      holds = true;
      while (true) pause();
    }).detach();
    while (!holds) sched_yield();
  });
  EXPECT_EQ(Watch(holder, 1), Ending::kDiskFull);
}

TEST_F(DeletedFilesTest, MemoryIsNoDisk) {
  const Holder holder([] {
    const int fd = memfd_create("memory", 0);
    Fill(fd);
    if (mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) _exit(1);
    if (mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) _exit(1);
  });
  EXPECT_EQ(Watch(holder, 1), std::nullopt);
}

TEST_F(DeletedFilesTest, EachCountsAsAFile) {
  const Holder holder([this] {
    for (int i = 0; i < 3; ++i) Deleted();
  });
  for (const int64_t limit : {2, 3}) {
    DiskWatch watch(folder_.path(), {.files = limit}, {.first = holder.pid(), .uid = {}});
    EXPECT_EQ(watch.Fault(watch.next()), limit == 2 ? std::optional(Ending::kDiskFull) : std::nullopt);
  }
}

// Nobody can see what it is. Whoever passes descriptors on receives them at once.
TEST_F(DeletedFilesTest, ADescriptorThatStaysInFlightIsBeyondTheLimit) {
  const Holder holder([this] {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) _exit(1);
    const int fd = Deleted();
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = buffer;
    message.msg_controllen = sizeof(buffer);
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &fd, sizeof(int));
    if (sendmsg(ends[0], &message, 0) != 1) _exit(1);
    close(fd);
    close(ends[0]);
  });
  DiskWatch watch(folder_.path(), {.bytes = kFileBytes / 2}, {.first = holder.pid(), .uid = {}});
  EXPECT_EQ(watch.Fault(watch.next()), std::nullopt) << "as any that is passed on";
  EXPECT_EQ(watch.Fault(watch.next()), std::nullopt);
  EXPECT_EQ(watch.Fault(watch.next()), Ending::kDiskFull);
}

// Root without CAP_SYS_PTRACE, as in most containers, looks at a sandbox's processes with the sandbox's uid.
TEST_F(DeletedFilesTest, ASandboxesOwnUidMayLookWhereRootMayNot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const Holder holder([this] {
    Deleted();
    // The kernel lets only its own user look at a process that changed its uid, once it may be dumped again.
    if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0) _exit(1);
  });
  const pid_t looker = fork();
  if (looker == 0) {
    // CAP_SYS_PTRACE goes.
    struct {
      uint32_t version;
      int pid;
    } header = {0x20080522, 0};
    struct {
      uint32_t effective, permitted, inheritable;
    } data[2] = {};
    if (syscall(SYS_capget, &header, data) != 0) _exit(2);
    for (auto* const set : {&data[0].effective, &data[0].permitted}) *set &= ~(1u << 19);
    if (syscall(SYS_capset, &header, data) != 0) _exit(2);
    DiskWatch own(folder_.path(), {.bytes = kFileBytes / 2}, {.first = holder.pid(), .uid = 65534});
    _exit(own.Fault(own.next()) == Ending::kDiskFull ? 0 : 1);
  }
  int status = 0;
  waitpid(looker, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ingot::sandbox
