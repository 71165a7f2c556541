#include "sandbox/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/str_split.h"
#include "base/waits.h"

namespace ingot::sandbox {
namespace {

enum Stage : int { kStdio, kChdir, kExec };

struct Failure {
  int stage;
  int error;
};

// The child's data, prepared before vfork, because nothing may allocate, lock, or throw between vfork and exec.
struct Plan {
  const char* path;
  char* const* argv;
  char* const* envp;
  const char* working_dir;  // nullptr = unchanged
  SpawnIo io;
  SpawnOptions options;
  int failure_fd;
  pid_t parent;
};

[[noreturn]] void Fail(const Plan& plan, Stage stage) {
  const Failure failure{stage, errno};
  [[maybe_unused]] const ssize_t written = write(plan.failure_fd, &failure, sizeof(failure));
  _exit(127);
}

// Some code in this process opens descriptors without O_CLOEXEC, such as Asio's accepted sockets.
void CloseOthersAtExec() {
  if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
  rlimit limit{};
  const int end =
      getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? static_cast<int>(limit.rlim_cur) : 65536;
  for (int fd = 3; fd < end; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

[[noreturn]] void RunChild(const Plan& plan) {
  if (plan.options.own_session) setsid();
  if (plan.options.dies_with_its_thread) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan.parent) _exit(127);  // it exited before prctl
  }
  // The parent's signal handlers must not run in the memory that it shares with the child. A signal that the parent
  // ignores would remain ignored.
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  if (dup2(plan.io.in, 0) < 0 || dup2(plan.io.out, 1) < 0 || dup2(plan.io.err, 2) < 0) Fail(plan, kStdio);
  CloseOthersAtExec();
  if (plan.working_dir != nullptr && chdir(plan.working_dir) != 0) Fail(plan, kChdir);
  if (!plan.options.dumps_core) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.options.program_fd >= 0) {
    syscall(SYS_execveat, plan.options.program_fd, "", plan.argv, plan.envp, AT_EMPTY_PATH);
  } else {
    execve(plan.path, plan.argv, plan.envp);
  }
  Fail(plan, kExec);
}

// A separate function, so that none of the caller's variables are in registers across vfork.
__attribute__((noinline)) pid_t VforkAndRun(const Plan& plan) {
  // posix_spawn closes no descriptors and executes no open file. RunChild makes only calls that are safe in the
  // parent's memory. NOLINTNEXTLINE(bugprone-unsafe-functions,clang-analyzer-security.insecureAPI.vfork)
  const pid_t pid = vfork();
  if (pid == 0) RunChild(plan);  // NOLINT(clang-analyzer-unix.Vfork)
  return pid;
}

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Runs in the parent, so that a missing program is reported before a process exists.
absl::StatusOr<std::string> FindExecutable(const Command& command) {
  const std::string& name = command.argv[0];
  if (name.find('/') != std::string::npos) return name;
  const std::string folders = SearchPath(command.env);
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(folders, ':'))) {
    // As in execvp, a relative folder is relative to the process's directory, which is working_dir.
    const bool relative = (folder.empty() || folder.front() != '/') && !command.working_dir.empty();
    std::string candidate =
        absl::StrCat(relative ? command.working_dir + "/" : "", folder.empty() ? "." : folder, "/", name);
    if (IsExecutableFile(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("no executable '", name, "' in PATH=", folders));
}

// Returns the programs that the kernel and env(1) run for a script; empty = not a script.
std::vector<std::string> InterpreterOf(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  char magic[2] = {};
  if (!file.read(magic, 2) || magic[0] != '#' || magic[1] != '!') return {};
  line.resize(256);  // the kernel does not read more
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  line = line.substr(0, line.find('\n'));
  std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.empty()) return {};
  std::vector<std::string> programs = {words[0]};
  if (words[0] != "/usr/bin/env" && words[0] != "/bin/env") return programs;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].front() == '-' || words[i].find('=') != std::string::npos) continue;
    programs.push_back(words[i]);
    break;
  }
  return programs;
}

absl::Status FailureStatus(const Failure& failure, const Command& command, const std::string& path) {
  switch (failure.stage) {
    case kStdio:
      return ErrnoStatus(failure.error, absl::StrCat("cannot set up stdin, stdout, and stderr for '", path, "'"));
    case kChdir:
      return ErrnoStatus(failure.error, absl::StrCat("cannot enter the working folder '", command.working_dir,
                                                     "' to run '", path, "'"));
    default:
      return ErrnoStatus(failure.error, absl::StrCat("cannot execute '", path, "'"));
  }
}

// Returns a copy of `fd` above 2, because setting up stdio would overwrite a lower one.
absl::StatusOr<Fd> AboveStdio(int fd) {
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return ErrnoStatus(errno, "cannot duplicate a descriptor");
  return copy;
}

}  // namespace

absl::Status ErrnoStatus(int errno_value, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", strerror(errno_value));
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case E2BIG:
    case EINVAL:
    case ENOEXEC:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::StatusOr<std::string> FindProgram(const Command& command) {
  INGOT_RETURN_IF_ERROR(CheckCommand(command));
  INGOT_ASSIGN_OR_RETURN(std::string path, FindExecutable(command));
  if (path.front() != '/' && !command.working_dir.empty() && command.argv[0].find('/') != std::string::npos) {
    path = absl::StrCat(command.working_dir, "/", path);
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot find the program '", path, "'"));
  if (!IsExecutableFile(path)) {
    return ErrnoStatus(EACCES, absl::StrCat("'", path, "' is not an executable file"));
  }
  for (const std::string& interpreter : InterpreterOf(path)) {
    Command next{.argv = {interpreter}, .env = command.env, .working_dir = command.working_dir, .stdin_text = ""};
    const absl::StatusOr<std::string> found = FindExecutable(next);
    if (found.ok() && IsExecutableFile(*found)) continue;
    return absl::NotFoundError(absl::StrCat("'", path, "' is a script for '", interpreter, "', which does not exist",
                                            found.ok() ? "" : absl::StrCat(": ", found.status().message())));
  }
  return path;
}

absl::StatusOr<pid_t> Spawn(const Command& command, const SpawnIo& io, const SpawnOptions& options) {
  INGOT_RETURN_IF_ERROR(CheckCommand(command));
  std::string path = command.argv[0];
  if (options.program_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(path, FindExecutable(command));
  }
  INGOT_ASSIGN_OR_RETURN(const Fd in, AboveStdio(io.in));
  INGOT_ASSIGN_OR_RETURN(const Fd out, AboveStdio(io.out));
  INGOT_ASSIGN_OR_RETURN(const Fd err, AboveStdio(io.err));
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe");
  Fd failure_read(pipe_fds[0]), failure_write(pipe_fds[1]);
  INGOT_ASSIGN_OR_RETURN(failure_write, AboveStdio(failure_write.get()));

  std::vector<char*> argv;
  argv.reserve(command.argv.size() + 1);
  for (const std::string& argument : command.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> env;
  env.reserve(command.env.size());
  for (const auto& [name, value] : command.env) env.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> envp;
  envp.reserve(env.size() + 1);
  for (const std::string& entry : env) envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);

  const Plan plan{.path = path.c_str(),
                  .argv = argv.data(),
                  .envp = envp.data(),
                  .working_dir = command.working_dir.empty() ? nullptr : command.working_dir.c_str(),
                  .io = {in.get(), out.get(), err.get()},
                  .options = options,
                  .failure_fd = failure_write.get(),
                  .parent = getpid()};

  // No handler may run in the child while it shares this memory. The child clears its signal mask just before exec.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = VforkAndRun(plan);
  const int vfork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(vfork_error, absl::StrCat("cannot create a process for '", path, "'"));

  failure_write.Reset();
  Failure failure;
  ssize_t got;
  do got = read(failure_read.get(), &failure, sizeof(failure));
  while (got < 0 && errno == EINTR);
  if (got != sizeof(failure)) return pid;  // closed by exec
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  return FailureStatus(failure, command, path);
}

absl::StatusOr<int> AwaitChild(pid_t pid, const std::string& name, std::chrono::milliseconds timeout) {
  const base::Wait wait(absl::StrCat("the end of ", name));
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const auto end = std::chrono::steady_clock::now() + timeout;
  bool late = false;
  for (pollfd ended{process.get(), POLLIN, 0}; process.valid() && !late;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int ready = poll(&ended, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) break;
    late = ready == 0;
  }
  if (late) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!late) return status;
  return absl::DeadlineExceededError(absl::StrCat(name, " did not end within ", timeout.count(), " ms and was killed"));
}

}  // namespace ingot::sandbox
