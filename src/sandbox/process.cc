#include "sandbox/process.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>

#include "base/log.h"
#include "sandbox/shims.h"

namespace ingot::sandbox {
namespace {

using std::chrono::nanoseconds;

std::string Seconds(nanoseconds time) { return absl::StrCat(std::chrono::duration<double>(time).count(), " s"); }

absl::Status CheckNoNul(const std::string& text, const std::string& what) {
  if (text.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " contains a NUL byte, which commands cannot receive"));
}

}  // namespace

absl::Status CheckCommand(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty()) {
    return absl::InvalidArgumentError("the command is empty: it needs at least the program's name");
  }
  for (size_t i = 0; i < command.argv.size(); ++i) {
    INGOT_RETURN_IF_ERROR(CheckNoNul(command.argv[i], absl::StrCat("argument ", i, " of '", command.argv[0], "'")));
  }
  for (const auto& [name, value] : command.env) {
    if (name.empty() || name.find('=') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' cannot be the name of an environment variable"));
    }
    INGOT_RETURN_IF_ERROR(CheckNoNul(name, "the name of an environment variable"));
    INGOT_RETURN_IF_ERROR(CheckNoNul(value, absl::StrCat("environment variable ", name)));
  }
  return absl::OkStatus();
}

std::string SearchPath(const std::map<std::string, std::string>& env) {
  const auto path = env.find("PATH");
  return path == env.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
}

absl::Status Limits::Validate() const {
  if (wall_time.count() <= 0) return absl::InvalidArgumentError("a command's wall time limit must be above 0");
  if (term_grace.count() < 0) return absl::InvalidArgumentError("the grace period after SIGTERM must not be negative");
  if (output_bytes < 0) return absl::InvalidArgumentError("a command's output limit must not be negative");
  if (memory_bytes < 0 || open_files < 0 || cpu_seconds < 0 || file_bytes < 0) {
    return absl::InvalidArgumentError("a command's resource limit is negative: use 0 for ingot's default");
  }
  return absl::OkStatus();
}

std::string Describe(const Outcome& outcome, const Limits& limits) {
  switch (outcome.ending) {
    case Ending::kExited:
      return absl::StrCat("exited with ", outcome.exit_code);
    case Ending::kSignalled:
      return absl::StrCat("was killed by signal ", outcome.signal, " (", strsignal(outcome.signal), ")");
    case Ending::kTimedOut:
      return absl::StrCat("exceeded its time limit of ", Seconds(limits.wall_time));
    case Ending::kOutputOverflow:
      return absl::StrCat("wrote more output than its limit of ", limits.output_bytes, " bytes");
    case Ending::kMemoryFull:
      return "exceeded its sandbox's memory limit (sandbox.memory_bytes)";
    case Ending::kDiskFull:
      return "exceeded its sandbox's disk limits (sandbox.disk_bytes and sandbox.files, which count descriptors that "
             "were sent but never received)";
    case Ending::kNoSpace:
      return "ran while agents.work_root's disk was full";
    case Ending::kCancelled:
      return "was cancelled";
  }
  return "ended";
}

Cancellation::Cancellation() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // Without a descriptor, nothing can be canceled. This is logged now rather than on cancellation.
  if (fd_ < 0) INGOT_LOG(error, "no descriptor is left for a cancellation event: raise the limit on open files");
}

Cancellation::~Cancellation() {
  if (fd_ >= 0) close(fd_);
}

void Cancellation::Cancel() {
  cancelled_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

std::map<std::string, std::string> InheritedEnvironment(const std::vector<std::string>& names) {
  std::map<std::string, std::string> found;
  for (const std::string& name : names) {
    if (const char* value = std::getenv(name.c_str())) found[name] = name == "PATH" ? PathBehindShims(value) : value;
  }
  return found;
}

}  // namespace ingot::sandbox
