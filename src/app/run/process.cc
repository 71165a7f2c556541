#include "app/run/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/printable.h"

namespace ingot::app {
namespace {

void OnSignal(int) {
  if (StopFlag().exchange(true)) _exit(130);
}

void OnSupervisorsSignal(int) { StopFlag() = true; }

// Used instead of SIG_IGN, which child processes would inherit.
void Nothing(int) {}

}  // namespace

std::atomic<bool>& StopFlag() {
  static std::atomic<bool> stop{false};
  return stop;
}

void HandleSignals(bool supervised) {
  StopFlag();  // constructed before any handler needs it
  struct sigaction action = {};
  action.sa_handler = supervised ? OnSupervisorsSignal : OnSignal;
  sigaction(SIGTERM, &action, nullptr);
  if (supervised) action.sa_handler = Nothing;
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file at its size limit then causes a write error, which names the file
}

void HideMemory() {
  if (std::getenv(kDebuggableVariable) == nullptr) prctl(PR_SET_DUMPABLE, 0);
}

// The kernel's parent-death signal is set even before this program is loaded (supervisor.cc). A thread also watches the
// parent, because the kernel clears that signal if the program has capabilities and whenever its user changes.
void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int process = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  if (getppid() != parent) _exit(1);  // it exited before prctl, so `process` may be a different one
  std::thread([parent, process] {
    constexpr int kLookMs = 200;  // used if the kernel has no pidfd
    pollfd ended{process, POLLIN, 0};
    while (getppid() == parent) poll(&ended, 1, process < 0 ? kLookMs : -1);
    _exit(1);
  }).detach();
}

absl::StatusOr<std::string> OwnBinary() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot find the path of this program: ", error.message()));
  return path.string();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "ingot: %s\n", base::PrintableLines(std::string(status.message())).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
      return 2;
    case absl::StatusCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

std::string DescribeEntrance(const std::string& gateway_url) {
  return absl::StrCat("agents.recipes is empty: this run starts no agents; external agents open their episodes at ",
                      gateway_url, "/ingot/v1/episodes");
}

std::string DescribeCores(const CoreBudget& cores) {
  return absl::StrCat("compute threads: ", cores.total, " in all, rollout ", cores.rollout, ", trainer ", cores.trainer,
                      " (the warm start uses all)");
}

}  // namespace ingot::app
