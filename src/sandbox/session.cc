#include "sandbox/session.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Calls `visit` for each process of the session but the leader.
template <typename Visit>
void ForEachMember(pid_t leader, Visit visit) {
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return;
  while (const dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    const char* const end = entry->d_name + strlen(entry->d_name);
    const auto parsed = std::from_chars(entry->d_name, end, pid);
    if (parsed.ec != std::errc() || parsed.ptr != end || pid == leader || getsid(pid) != leader) continue;
    // While the descriptor is open, the id names this process. It may have changed hands before: the session is read
    // again.
    const Fd held(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (held.valid() && getsid(pid) == leader) visit(pid, held.get());
  }
  closedir(proc);
}

// True: the process ends within `patience`.
bool Ends(int pidfd, std::chrono::milliseconds patience) {
  pollfd end{pidfd, POLLIN, 0};
  return poll(&end, 1, static_cast<int>(std::max<int64_t>(patience.count(), 0))) == 1;
}

// True: an orphan becomes a child of this process, which is init (in a container without one) or a subreaper.
bool Adopts() {
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  return subreaper != 0 || getpid() == 1;
}

}  // namespace

void SignalSession(pid_t leader, int signal) {
  kill(-leader, signal);
  ForEachMember(leader, [&](pid_t pid, int pidfd) {
    if (getpgid(pid) != leader) syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
  });
}

bool KillSession(pid_t leader) {
  const bool adopts = Adopts();
  const auto deadline = SteadyClock::now() + std::chrono::seconds(2);
  kill(-leader, SIGKILL);
  while (true) {
    bool ran = false;  // a process that ran may have started others meanwhile
    ForEachMember(leader, [&](pid_t pid, int pidfd) {
      if (!Ends(pidfd, std::chrono::milliseconds(0))) {
        ran = true;
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
        Ends(pidfd, std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()));
      }
      if (adopts) waitpid(pid, nullptr, WNOHANG);
    });
    if (!ran) return true;
    if (SteadyClock::now() >= deadline) return false;
  }
}

}  // namespace ingot::sandbox
