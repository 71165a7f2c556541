#include "sandbox/group_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/mutex.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

// The list has an id between two spaces. The script starts no process: it uses built-in commands alone. /proc describes
// a process as "PID (NAME) STATE PARENT GROUP SESSION ..", where NAME may hold any character, line ends too.
constexpr char kScript[] = R"sh(trap '' HUP INT TERM
groups=' '
while read -r line; do
  id=${line#?}
  case $line in
    +*) groups="$groups$id " ;;
    -*) case $groups in *" $id "*) groups=${groups%%" $id "*}' '${groups#*" $id "} ;; esac ;;
  esac
done
exec 2>/dev/null
for id in $groups; do kill -KILL "-$id"; done
pass=0 found=yes
while [ -n "$found" ] && [ $pass -lt 100 ]; do
  pass=$((pass + 1)) found=
  for stat in /proc/[0-9]*/stat; do
    text=
    while read -r part; do text="$text $part"; done <"$stat"
    set -- ${text##*) }
    case $1 in Z | X | '') continue ;; esac
    case $groups in *" $4 "*) pid=${stat#/proc/} && kill -KILL "${pid%/stat}" && found=yes ;; esac
  done
done
)sh";

struct Guard {
  base::Mutex mu;
  pid_t owner ABSL_GUARDED_BY(mu) = 0;
  int fd ABSL_GUARDED_BY(mu) = -1;
};

Guard& Instance() {
  static Guard* const guard = new Guard;
  return *guard;
}

absl::StatusOr<int> StartGuard() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "cannot make a socket");
  Fd ours(ends[0]), theirs(ends[1]);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
  const Command command{
      .argv = {"/bin/sh", "-c", kScript, "ingot-group-guard"}, .env = {}, .working_dir = "/", .stdin_text = ""};
  const absl::StatusOr<pid_t> pid = Spawn(command, Limits{}, {theirs.get(), null.get(), null.get()}, SpawnOptions{});
  if (!pid.ok()) return pid.status();
  return ours.Release();
}

}  // namespace

int GroupGuardFd() {
  Guard& guard = Instance();
  base::MutexLock lock(guard.mu);
  if (guard.owner == getpid()) return guard.fd;
  if (guard.fd >= 0) close(guard.fd);  // inherited by a fork
  guard.owner = getpid();
  guard.fd = -1;
  const absl::StatusOr<int> fd = StartGuard();
  if (fd.ok()) {
    guard.fd = *fd;
  } else {
    INGOT_LOG(warn, "no guard for sessions ({}): if this process is killed, children of agents may stay behind",
              fd.status().ToString());
  }
  return guard.fd;
}

void ForgetGroup(pid_t leader) {
  const int fd = GroupGuardFd();
  if (fd < 0) return;
  const std::string line = absl::StrCat("-", leader, "\n");
  // Blocks until it is sent: an id that stays listed may be used again. The guard reads all the time.
  while (send(fd, line.data(), line.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

}  // namespace ingot::sandbox
