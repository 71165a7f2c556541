#include "sandbox/launcher/ipc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ingot::sandbox::launcher {
namespace {

// The second column of such a file is an object's id. The kernel allows only its owner to remove it.
void RemoveListed(const char* list, void (*remove_one)(int id)) {
  FILE* const file = fopen(list, "re");
  if (file == nullptr) return;  // not supported by this kernel
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

bool RemoveEntry(int folder, const char* name) {
  return unlinkat(folder, name, 0) == 0 || unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

// Moves the folder `name` up into `top`. Its user may have removed their own permissions, and such a folder cannot be
// moved.
bool MoveUp(int folder, const char* name, int top) {
  fchmodat(folder, name, 0700, AT_SYMLINK_NOFOLLOW);
  for (int tries = 0; tries < 8; ++tries) {
    uint64_t number = 0;  // random, because others can also write to `top` and would use a name they can guess
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return false;
    char moved[64];
    snprintf(moved, sizeof(moved), "ingot-left-%016llx", static_cast<unsigned long long>(number));
    if (renameat2(folder, name, top, moved, RENAME_NOREPLACE) == 0) return true;
    if (errno != EEXIST) return false;
  }
  return false;
}

// Calls `act` for each name in `folder`. Returns the number of times it returned true.
template <typename Act>
int CountEach(int folder, Act act) {
  DIR* const entries = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return 0;
  int count = 0;
  while (const dirent* const entry = readdir(entries)) {
    const char* const name = entry->d_name;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && act(name)) ++count;
  }
  closedir(entries);
  return count;
}

// Empties the folder `name` in `top` and removes it. Returns false if nothing in it could be changed.
bool RemoveFolder(int top, const char* name) {
  fchmodat(top, name, 0700, AT_SYMLINK_NOFOLLOW);
  const int folder = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return false;
  const int gone =
      CountEach(folder, [&](const char* each) { return RemoveEntry(folder, each) || MoveUp(folder, each, top); });
  close(folder);
  return RemoveEntry(top, name) || gone > 0;
}

// Removes everything in the folder that belongs to `uid`, at any depth and regardless of permissions. Follows only
// single names from an open folder, and never links. Nested folders are moved up and handled in a later round, so
// memory and descriptor use do not grow with depth.
void RemoveOwnFiles(const char* folder, uid_t uid) {
  const int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) return;
  const auto remove = [&](const char* name) {
    struct stat info;
    if (fstatat(top, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid != uid) return false;
    return RemoveEntry(top, name) || (S_ISDIR(info.st_mode) && RemoveFolder(top, name));
  };
  while (CountEach(top, remove) > 0) continue;
  close(top);
}

// Opens the file system of the POSIX queues without mounting it at a path, because few machines have it mounted.
// Returns -1 if not permitted.
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
  // Also handles machines that have the queues at the usual place and do not allow a mount.
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
