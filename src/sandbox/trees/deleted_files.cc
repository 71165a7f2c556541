#include "sandbox/trees/deleted_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sandbox/sandbox_processes.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

constexpr int kMaxRounds = 8;  // repeats if processes start in the meantime
constexpr std::string_view kDeleted = " (deleted)";

// Lets this thread read /proc as the sandbox's uid would, because root without CAP_SYS_PTRACE may not examine other
// users' processes.
class AsUser {
 public:
  explicit AsUser(uid_t uid) {
    setfsgid(uid);
    setfsuid(uid);
  }
  ~AsUser() {
    setfsuid(geteuid());
    setfsgid(getegid());
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

bool IsInMemory(const std::string& path) {
  struct statfs info;
  if (statfs(path.c_str(), &info) != 0) return true;
  const auto type = static_cast<uint64_t>(info.f_type) & 0xffffffff;
  return type == TMPFS_MAGIC || type == HUGETLBFS_MAGIC || type == RAMFS_MAGIC;
}

// Returns the file systems of memfd_create and the machine's /dev/shm.
std::set<dev_t> MemoryDevices() {
  std::set<dev_t> found;
  struct stat info;
  const Fd memory(memfd_create("ingot-device", MFD_CLOEXEC));
  if (memory.valid() && fstat(memory.get(), &info) == 0) found.insert(info.st_dev);
  if (stat("/dev/shm", &info) == 0) found.insert(info.st_dev);
  return found;
}

// One mapping of an unnamed file, as shown in /proc/PID/maps.
struct Mapping {
  uint64_t from = 0, to = 0;
  uint64_t major = 0, minor = 0;
  ino_t inode = 0;
};

std::vector<Mapping> DeletedMappings(pid_t pid) {
  std::vector<Mapping> found;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    Mapping each;
    unsigned long inode = 0;
    if (!std::string_view(line).ends_with(kDeleted) ||
        std::sscanf(line.c_str(), "%lx-%lx %*s %*s %lx:%lx %lu", &each.from, &each.to, &each.major, &each.minor,
                    &inode) != 5) {
      continue;
    }
    each.inode = inode;
    if (inode != 0) found.push_back(each);
  }
  return found;
}

class Finder {
 public:
  Finder(const SandboxOwner& sandbox, const char* folder) : sandbox_(sandbox) {
    struct stat info;
    if (stat(folder, &info) == 0) home_ = info.st_dev;
  }

  DeletedFiles Find() {
    for (int i = 0; i < kMaxRounds; ++i) {
      bool is_new = false;
      for (const pid_t pid : ProcessesOf(sandbox_.first)) {
        if (!looked_.insert(pid).second) continue;
        is_new = true;
        Inspect(pid);
      }
      if (!is_new) break;
    }
    return found_;
  }

 private:
  void Inspect(pid_t pid) {
    if (LookAt(pid) || !sandbox_.uid.has_value()) return;
    const AsUser user(*sandbox_.uid);
    LookAt(pid);
  }

  // Returns false if this process has no permission.
  bool LookAt(pid_t pid) {
    bool has_maps = false;
    for (const pid_t thread : ThreadsOf(pid)) {
      if (thread != pid && has_maps && SharesFiles(pid, thread)) continue;
      if (!LookAtFiles(thread)) return false;
      // If a process's first thread has ended, another thread has its maps.
      if (!std::exchange(has_maps, true) || thread == pid) has_maps = LookAtMaps(thread);
    }
    return true;
  }

  static bool SharesFiles(pid_t pid, pid_t thread) { return syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0) == 0; }

  bool LookAtFiles(pid_t thread) {
    const std::string folder = absl::StrCat("/proc/", thread, "/fd");
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
    if (entries == nullptr) return errno != EACCES;
    while (const dirent* const entry = readdir(entries.get())) {
      if (entry->d_name[0] == '.') continue;
      struct stat info;
      if (fstatat(dirfd(entries.get()), entry->d_name, &info, 0) != 0) {
        if (errno == EACCES) return false;  // root can list them anyway
        continue;
      }
      if (S_ISSOCK(info.st_mode)) CountInFlight(thread, entry->d_name, info.st_ino);
      Count(info, absl::StrCat(folder, "/", entry->d_name));
    }
    return true;
  }

  // Returns true if the thread has memory.
  bool LookAtMaps(pid_t thread) {
    for (const Mapping& each : DeletedMappings(thread)) {
      const std::string path =
          absl::StrCat("/proc/", thread, "/map_files/", absl::Hex(each.from), "-", absl::Hex(each.to));
      struct stat info;
      if (stat(path.c_str(), &info) == 0) {
        Count(info, path);
      } else if (errno == EPERM || errno == EACCES) {
        CountMapping(each);
      }
    }
    return std::ifstream(absl::StrCat("/proc/", thread, "/maps")).peek() != std::ifstream::traits_type::eof();
  }

  void Count(const struct stat& info, const std::string& path) {
    if (info.st_nlink != 0 || (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) return;
    if (seen_.contains({info.st_dev, info.st_ino})) return;
    if (info.st_dev != home_ && IsInMemory(path)) return;
    seen_.insert({info.st_dev, info.st_ino});
    found_.bytes += int64_t{info.st_blocks} * 512;
    ++found_.files;
  }

  void CountMapping(const Mapping& each) {
    const dev_t device = makedev(static_cast<unsigned>(each.major), static_cast<unsigned>(each.minor));
    static const std::set<dev_t>* const memory = new std::set<dev_t>(MemoryDevices());
    if (seen_.contains({device, each.inode}) || memory->contains(device)) return;  // it is also open
    if (mapped_.insert({device, each.inode}).second) ++found_.files;
    found_.bytes += static_cast<int64_t>(each.to - each.from);
  }

  void CountInFlight(pid_t thread, const char* fd, ino_t socket) {
    if (!sockets_.insert(socket).second) return;
    std::ifstream facts(absl::StrCat("/proc/", thread, "/fdinfo/", fd));
    for (std::string word; facts >> word;) {
      int64_t count = 0;
      if (word == "scm_fds:" && facts >> count) found_.in_flight += count;
    }
  }

  const SandboxOwner sandbox_;
  dev_t home_ = 0;
  DeletedFiles found_;
  std::set<pid_t> looked_;
  std::set<std::pair<dev_t, ino_t>> seen_, mapped_;
  std::set<ino_t> sockets_;
};

}  // namespace

DeletedFiles FindDeletedFiles(const SandboxOwner& sandbox, const char* folder) {
  return sandbox.first > 0 ? Finder(sandbox, folder).Find() : DeletedFiles();
}

}  // namespace ingot::sandbox
