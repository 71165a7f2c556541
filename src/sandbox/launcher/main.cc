// The launcher starts the commands of rooms. It is one small process beside Ingot, without threads and without keys. So
// the parent of an agent has nothing to read, and a start copies no page of Ingot's. It answers its socket, stdin,
// until that ends: then Ingot is gone, and each room's first process ends its room by itself.
//
// src/sandbox/launcher.h starts it and speaks with it; launch_messages.h has the messages.
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/launch_messages.h"
#include "sandbox/launcher/descendants.h"
#include "sandbox/launcher/parcel.h"
#include "sandbox/launcher/room.h"
#include "sandbox/launcher/wall.h"

namespace ingot::sandbox::launcher {
namespace {

constexpr int kSocket = 0;

// First processes of rooms that have not ended. agents.concurrency is at most 4096; a room runs one command at a time.
constexpr int kMostRooms = 8192;
pid_t rooms[kMostRooms];
int room_count = 0;

bool IsRoom(pid_t pid) {
  for (int i = 0; i < room_count; ++i) {
    if (rooms[i] == pid) return true;
  }
  return false;
}

void Forget(pid_t pid) {
  for (int i = 0; i < room_count; ++i) {
    if (rooms[i] == pid) rooms[i] = rooms[--room_count];
  }
}

struct Incoming {
  bool open = true;  // false: the socket has ended
  int count = 0;
  int fds[kStartDescriptors];
};

Incoming Receive() {
  Incoming incoming;
  char byte;
  iovec data{&byte, 1};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(incoming.fds))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = sizeof(buffer);
  const ssize_t got = recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) incoming.open = false;
  const cmsghdr* const control = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
    incoming.count = static_cast<int>((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(incoming.fds, CMSG_DATA(control), static_cast<size_t>(incoming.count) * sizeof(int));
  }
  return incoming;
}

LaunchFailure SetUp(int file, Ground& ground) {
  Parcel parcel(file);
  const auto* const header = parcel.TakeHeader<SetUpHeader>();
  if (header == nullptr) return {LaunchStep::kMessage, EINVAL, 0};
  ground.walls = header->walls;
  ground.uid = geteuid();
  ground.gid = getegid();
  if ((ground.walls & kMountNamespace) == 0) return {};
  const bool user = (ground.walls & kUserNamespace) != 0;
  if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) != 0) return {LaunchStep::kNamespaces, errno, 0};
  if (user) {
    if (const int error = MapIds(ground.uid, ground.gid)) return {LaunchStep::kIdMap, error, 0};
  }
  if (const int error = DetachMounts()) return {LaunchStep::kMounts, error, 0};
  for (uint32_t i = 0; i < header->hidden; ++i) {
    const char* const hidden = parcel.TakeString();
    if (hidden == nullptr) return {LaunchStep::kMessage, EINVAL, 0};
    if (const int error = HidePath(hidden + 1, hidden[0] == 'd')) {
      return {LaunchStep::kHide, error, static_cast<int32_t>(i)};
    }
  }
  return {};
}

void StartRoom(const Ground& ground, const Incoming& start) {
  const int control = start.fds[4];
  if (room_count == kMostRooms) {
    ReportFailure(control, LaunchStep::kNamespaces, EAGAIN, 0);
    return;
  }
  // fork(2) with namespaces; this process has no threads.
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, CloneFlags(ground), nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) {
    close(kSocket);
    RunRoom(ground, start.fds);
  }
  if (pid > 0) {
    rooms[room_count++] = pid;
  } else {
    ReportFailure(control, LaunchStep::kNamespaces, errno, 0);
  }
}

// A room whose first process was killed leaves its processes to the launcher. True: there are none any more.
bool EndOrphans() { return SignalDescendants(SIGKILL, IsRoom) == 0; }

[[noreturn]] void Serve(const Ground& ground) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int child_events = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  bool orphans = false;  // there may be some
  while (true) {
    pollfd fds[2] = {{kSocket, POLLIN, 0}, {child_events, POLLIN, 0}};
    if (poll(fds, 2, orphans ? 1 : -1) < 0) continue;
    if (fds[0].revents != 0) {
      const Incoming start = Receive();
      if (!start.open) _exit(0);
      if (start.count == kStartDescriptors) StartRoom(ground, start);
      for (int i = 0; i < start.count; ++i) close(start.fds[i]);
    }
    if (fds[1].revents != 0) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t got = read(child_events, &info, sizeof(info));
      int status = 0;
      pid_t pid;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (IsRoom(pid) && WIFSIGNALED(status)) orphans = true;
        Forget(pid);
      }
    }
    if (orphans) orphans = !EndOrphans();
  }
}

[[noreturn]] void Main() {
  prctl(PR_SET_NAME, "ingot-launcher");
  const Incoming set_up = Receive();
  if (set_up.count != kSetUpDescriptors) _exit(1);
  Ground ground;
  LaunchReport report;
  report.failure = SetUp(set_up.fds[0], ground);
  close(set_up.fds[0]);
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (send(kSocket, &report, sizeof(report), MSG_NOSIGNAL) < 0) _exit(1);
  Serve(ground);
}

}  // namespace
}  // namespace ingot::sandbox::launcher

int main() { ingot::sandbox::launcher::Main(); }
