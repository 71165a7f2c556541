#include "sandbox/launcher/ipc.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ingot::sandbox::launcher {
namespace {

// The second column of such a file is an object's id. The kernel lets nobody but its owner remove it.
void RemoveListed(const char* list, void (*remove_one)(int id)) {
  FILE* const file = fopen(list, "re");
  if (file == nullptr) return;  // a kernel without them
  char line[512];
  while (fgets(line, sizeof(line), file) != nullptr) {
    int id = 0;
    if (sscanf(line, "%*s %d", &id) == 1) remove_one(id);
  }
  fclose(file);
}

void RemoveShared(int id) { shmctl(id, IPC_RMID, nullptr); }
void RemoveSemaphores(int id) { semctl(id, 0, IPC_RMID); }
void RemoveQueue(int id) { msgctl(id, IPC_RMID, nullptr); }

int RemovePath(const char* path, const struct stat*, int, FTW*) {
  remove(path);
  return 0;
}

void RemoveOwnFiles(const char* folder, uid_t uid) {
  DIR* const entries = opendir(folder);
  if (entries == nullptr) return;
  while (const dirent* const entry = readdir(entries)) {
    struct stat info;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid != uid) {
      continue;
    }
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    nftw(path, RemovePath, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  }
  closedir(entries);
}

// The file system of the POSIX queues, mounted nowhere: few machines have it at a path. -1: no right to do so.
int OpenQueues() {
  const int made = static_cast<int>(syscall(SYS_fsopen, "mqueue", FSOPEN_CLOEXEC));
  if (made < 0) return -1;
  int queues = -1;
  if (syscall(SYS_fsconfig, made, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0) {
    queues = static_cast<int>(syscall(SYS_fsmount, made, FSMOUNT_CLOEXEC, 0));
  }
  close(made);
  return queues;
}

[[noreturn]] void RemoveAll(uid_t uid) {
  const int queues = OpenQueues();
  if (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setresgid, uid, uid, uid) != 0 ||
      syscall(SYS_setresuid, uid, uid, uid) != 0) {
    _exit(1);
  }
  RemoveListed("/proc/sysvipc/shm", RemoveShared);
  RemoveListed("/proc/sysvipc/sem", RemoveSemaphores);
  RemoveListed("/proc/sysvipc/msg", RemoveQueue);
  RemoveOwnFiles("/dev/shm", uid);
  // Also of a machine that has the queues at the usual place, and refuses a mount.
  if (queues < 0 || fchdir(queues) == 0) RemoveOwnFiles(queues < 0 ? "/dev/mqueue" : ".", uid);
  _exit(0);
}

}  // namespace

void RemoveIpcOf(uid_t uid) {
  const pid_t remover = fork();
  if (remover == 0) RemoveAll(uid);
  if (remover > 0) waitpid(remover, nullptr, 0);
}

}  // namespace ingot::sandbox::launcher
