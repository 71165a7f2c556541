#include "sandbox/launcher/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace ingot::sandbox::launcher {

int CloneTree(const char* path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0);
  return static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, path, flags));
}

int Place(int tree, const char* target) {
  return syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0 : errno;
}

int SetAttributes(int fd, uint64_t attributes, bool recursive) {
  mount_attr set{};
  set.attr_set = attributes;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
  return syscall(SYS_mount_setattr, fd, "", flags, &set, sizeof(set)) == 0 ? 0 : errno;
}

int MakePlace(const char* path, bool is_folder) {
  char part[4096];
  if (strlen(path) >= sizeof(part)) return ENAMETOOLONG;
  for (size_t i = 1; path[i] != 0; ++i) {
    if (path[i] != '/') continue;
    memcpy(part, path, i);
    part[i] = 0;
    if (mkdir(part, 0755) != 0 && errno != EEXIST) return errno;
  }
  if (is_folder) return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : errno;
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (fd < 0) return errno == EROFS ? 0 : errno;
  close(fd);
  return 0;
}

int UserNamespaceOf(uint32_t inside, uint32_t outside) {
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) return -1;
  const auto helper =
      static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (helper == 0) {
    close(go[1]);
    char byte;
    [[maybe_unused]] const ssize_t got = read(go[0], &byte, 1);
    _exit(0);
  }
  int names = -1;
  char path[64], map[64];
  const int size = snprintf(map, sizeof(map), "%u %u 1", inside, outside);
  bool mapped = helper > 0;
  for (const char* const file : {"uid_map", "gid_map"}) {
    snprintf(path, sizeof(path), "/proc/%d/%s", helper, file);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    mapped = mapped && fd >= 0 && write(fd, map, static_cast<size_t>(size)) == size;
    if (fd >= 0) close(fd);
  }
  snprintf(path, sizeof(path), "/proc/%d/ns/user", helper);
  if (mapped) names = open(path, O_RDONLY | O_CLOEXEC);
  close(go[0]);
  close(go[1]);
  if (helper > 0) waitpid(helper, nullptr, 0);
  return names;
}

int MapOwners(int tree, int user_namespace, bool recursive) {
  mount_attr set{};
  set.attr_set = MOUNT_ATTR_IDMAP;
  set.userns_fd = static_cast<uint64_t>(user_namespace);
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
  return syscall(SYS_mount_setattr, tree, "", flags, &set, sizeof(set)) == 0 ? 0 : errno;
}

}  // namespace ingot::sandbox::launcher
