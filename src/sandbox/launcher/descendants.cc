#include "sandbox/launcher/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ingot::sandbox::launcher {
namespace {

struct SeenProcess {
  pid_t pid;
  pid_t parent;
};

// A later pass finds processes that did not fit.
constexpr int kMaxSeen = 65536;
SeenProcess seen[kMaxSeen];

// One bit per possible id. The maximum pid_max is 1 << 22.
constexpr int kMaxIds = 1 << 22;
unsigned char below[kMaxIds / 8];

bool IsBelow(pid_t pid) { return pid < kMaxIds && (below[pid / 8] >> (pid % 8) & 1) != 0; }

// Returns 0 if there is no such process. /proc contains "PID (NAME) STATE PARENT ..", where NAME may have any
// characters.
pid_t ParentOf(const char* pid) {
  char path[64], text[512];
  snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* const name_end = strrchr(text, ')');
  if (name_end == nullptr || strlen(name_end) < 4 || name_end[2] == 'Z' || name_end[2] == 'X') return 0;
  return static_cast<pid_t>(strtol(name_end + 4, nullptr, 10));
}

int ListProcesses() {
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return 0;
  int count = 0;
  while (const dirent* const entry = readdir(proc)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || count == kMaxSeen) continue;
    const pid_t parent = ParentOf(entry->d_name);
    if (parent > 0) seen[count++] = {static_cast<pid_t>(strtol(entry->d_name, nullptr, 10)), parent};
  }
  closedir(proc);
  return count;
}

void MarkDescendants(int count, bool (*spares)(pid_t)) {
  memset(below, 0, sizeof(below));
  const pid_t self = getpid();
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < count; ++i) {
      const auto [pid, parent] = seen[i];
      if (IsBelow(pid) || pid >= kMaxIds) continue;
      if (parent == self ? spares != nullptr && spares(pid) : !IsBelow(parent)) continue;
      below[pid / 8] = static_cast<unsigned char>(below[pid / 8] | 1 << pid % 8);
      more = true;
    }
  }
}

// While the descriptor is open, the id belongs to the same process. It may have been reused since it was listed, so the
// parent is read again.
void SignalIfSame(const SeenProcess& process, int signal) {
  const int held = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (held < 0) return;
  char pid[24];
  snprintf(pid, sizeof(pid), "%d", process.pid);
  if (ParentOf(pid) == process.parent) syscall(SYS_pidfd_send_signal, held, signal, nullptr, 0);
  close(held);
}

}  // namespace

int SignalDescendants(int signal, bool (*spares)(pid_t child)) {
  const int count = ListProcesses();
  MarkDescendants(count, spares);
  int found = 0;
  for (int i = 0; i < count; ++i) {
    if (!IsBelow(seen[i].pid)) continue;
    ++found;
    SignalIfSame(seen[i], signal);
  }
  return found;
}

}  // namespace ingot::sandbox::launcher
