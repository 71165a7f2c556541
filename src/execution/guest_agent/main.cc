// The guest agent starts a session's processes in its sandbox, transfers their input and output, and accesses the
// sandbox's files. The sandbox's first process runs it as the sandbox's only command (Command::program) and ends it
// together with its descendants. It exits when its socket, descriptor 1, is closed.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <vector>

#include "execution/guest_agent/files.h"
#include "execution/guest_agent/link.h"
#include "execution/guest_agent/processes.h"

namespace ingot::execution::guest_agent {
namespace {

// Replaces descriptor 0, which is this program's own file, with /dev/null.
void LeaveProgramFile() {
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null > 0) {
    dup2(null, 0);
    close(null);
  }
}

void HandleRequest(Processes& processes, Incoming& incoming) {
  FrameHeader header;
  std::string_view payload;
  while (incoming.Next(header, payload)) {
    if (header.kind != FrameKind::kFile) {
      processes.HandleRequest(header, payload);
      continue;
    }
    std::string answer;
    const int error = DoFile(static_cast<FileOp>(header.number), payload, answer);
    Send(FrameKind::kFileDone, header.id, static_cast<uint32_t>(error), error == 0 ? answer : "");
  }
}

void Run() {
  prctl(PR_SET_NAME, "guest-agent");
  prctl(PR_SET_DUMPABLE, 0);  // Keeps programs with the same uid from tracing it.
  LeaveProgramFile();
  signal(SIGPIPE, SIG_IGN);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  Processes processes;
  Incoming incoming;
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{kLink, POLLIN, 0}, {children, POLLIN, 0}});
    processes.AddTo(polled);
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    processes.Serve(polled);
    if (polled[1].revents != 0) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t got = read(children, &info, sizeof(info));
      processes.Reap();
    }
    if (polled[0].revents != 0) {
      if (!incoming.ReadMore()) return;
      HandleRequest(processes, incoming);
    }
  }
}

}  // namespace
}  // namespace ingot::execution::guest_agent

int main() {
  ingot::execution::guest_agent::Run();
  return 0;
}
