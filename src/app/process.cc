#include "app/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/printable.h"

namespace ingot::app {
namespace {

void OnSignal(int) {
  if (StopFlag().exchange(true)) _exit(130);
}

void OnSupervisorsSignal(int) { StopFlag() = true; }

// In place of SIG_IGN, which child processes would inherit.
void Nothing(int) {}

}  // namespace

std::atomic<bool>& StopFlag() {
  static std::atomic<bool> stop{false};
  return stop;
}

void HandleSignals(bool supervised) {
  StopFlag();  // constructed before a handler can need it
  struct sigaction action = {};
  action.sa_handler = supervised ? OnSupervisorsSignal : OnSignal;
  sigaction(SIGTERM, &action, nullptr);
  if (supervised) action.sa_handler = Nothing;
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then an error of the write, which names the file
}

void HideMemory() {
  if (std::getenv(kDebuggableVariable) == nullptr) prctl(PR_SET_DUMPABLE, 0);
}

void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl
}

absl::StatusOr<std::string> OwnBinary() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot find this program's file: ", error.message()));
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
  return absl::StrCat(
      "agents.recipes is empty: this run starts no agents; those from elsewhere open their episodes at ", gateway_url,
      "/ingot/v1/episodes");
}

std::string DescribeCores(const CoreBudget& cores) {
  return absl::StrCat("compute threads: ", cores.total, " in all, rollout ", cores.rollout, ", trainer ", cores.trainer,
                      " (the warm start uses all)");
}

}  // namespace ingot::app
