#include "sandbox/launcher/isolation_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/launcher/left_out.h"

namespace ingot::sandbox::launcher {
namespace {

int WriteText(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const ssize_t size = static_cast<ssize_t>(strlen(text));
  const int error = write(fd, text, static_cast<size_t>(size)) == size ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

int MapIds(uid_t uid, gid_t gid) { return MapIdsTo(uid, uid, gid); }

int MapIdsTo(uid_t inside, uid_t uid, gid_t gid) {
  // The files in /proc/self belong to root unless the process is dumpable. It has no keys at this point.
  prctl(PR_SET_DUMPABLE, 1);
  char map[64];
  int error = WriteText("/proc/self/setgroups", "deny");
  if (error == ENOENT) error = 0;
  if (error == 0) {
    snprintf(map, sizeof(map), "%u %u 1", inside, uid);
    error = WriteText("/proc/self/uid_map", map);
  }
  if (error == 0) {
    snprintf(map, sizeof(map), "%u %u 1", inside == uid ? gid : inside, gid);
    error = WriteText("/proc/self/gid_map", map);
  }
  prctl(PR_SET_DUMPABLE, 0);
  return error;
}

int DetachMounts() {
  if (!Raises(Measure::kNoPropagation)) return 0;
  return mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 ? 0 : errno;
}

int HidePath(const char* path, bool is_folder) {
  if (!Raises(is_folder ? Measure::kHiddenFolders : Measure::kHiddenFiles)) return 0;
  const unsigned long flags = FlagOf<unsigned long>(Measure::kHiddenFoldersReadOnly, MS_RDONLY) |
                              FlagOf<unsigned long>(Measure::kHiddenFoldersNoSuid, MS_NOSUID) |
                              FlagOf<unsigned long>(Measure::kHiddenFoldersNoDev, MS_NODEV) |
                              FlagOf<unsigned long>(Measure::kHiddenFoldersNoExec, MS_NOEXEC);
  const int done = is_folder ? mount("ingot", path, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=2")
                             : mount("/dev/null", path, nullptr, MS_BIND, nullptr);
  return done == 0 || errno == ENOENT ? 0 : errno;
}

int MountProc() {
  const unsigned long flags = FlagOf<unsigned long>(Measure::kProcNoSuid, MS_NOSUID) |
                              FlagOf<unsigned long>(Measure::kProcNoDev, MS_NODEV) |
                              FlagOf<unsigned long>(Measure::kProcNoExec, MS_NOEXEC);
  return mount("proc", "/proc", "proc", flags, nullptr) == 0 ? 0 : errno;
}

int ShowOneSandbox(const char* work_root, const char* sandbox) {
  const int folder = open(sandbox, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return errno;
  char source[40];
  snprintf(source, sizeof(source), "/proc/self/fd/%d", folder);
  if (!Raises(Measure::kOneSandboxShown)) return 0;
  const unsigned long flags = FlagOf<unsigned long>(Measure::kOneSandboxNoSuid, MS_NOSUID) |
                              FlagOf<unsigned long>(Measure::kOneSandboxNoDev, MS_NODEV);
  if (mount("ingot", work_root, "tmpfs", flags, "mode=0755,size=16k,nr_inodes=4") != 0) return errno;
  if (mkdir(sandbox, 0700) != 0 || mount(source, sandbox, nullptr, MS_BIND | MS_REC, nullptr) != 0) return errno;
  const unsigned long read_only = FlagOf<unsigned long>(Measure::kOneSandboxReadOnly, MS_RDONLY);
  if (mount(nullptr, work_root, nullptr, MS_REMOUNT | MS_BIND | read_only | flags, nullptr) != 0) return errno;
  close(folder);
  return 0;
}

int NameUid(const char* sandbox) {
  if (!Raises(Measure::kOwnUidNamed)) return 0;
  char names[4096];
  if (snprintf(names, sizeof(names), "%s/passwd", sandbox) >= static_cast<int>(sizeof(names))) return ENAMETOOLONG;
  return mount(names, "/etc/passwd", nullptr, MS_BIND, nullptr) == 0 || errno == ENOENT ? 0 : errno;
}

int BoundCapabilities() {
  for (int capability = 0; Raises(Measure::kBoundedCapabilities) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0;
       ++capability)
    continue;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (!Raises(Measure::kNoNewPrivileges)) return 0;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno;
}

int DropCapabilities() {
  if (!Raises(Measure::kNoCapabilities)) return 0;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, none) == 0 ? 0 : errno;
}

}  // namespace ingot::sandbox::launcher
