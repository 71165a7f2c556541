#include "app/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/log.h"

extern char** environ;

namespace ingot::app {
namespace {

std::string Describe(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("exited with ", WEXITSTATUS(wait_status));
  if (WIFSIGNALED(wait_status)) return absl::StrCat("was killed by signal ", WTERMSIG(wait_status));
  return "ended";
}

}  // namespace

Supervisor::~Supervisor() { StopAll(); }

absl::StatusOr<pid_t> Supervisor::Spawn(const RoleSpec& spec, bool again) {
  std::vector<std::string> words = spec.argv;
  if (again) words.insert(words.end(), spec.restart_extra.begin(), spec.restart_extra.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  const int log_flags = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, 2, spec.log_path.c_str(), log_flags, 0644);
  if (!spec.inherits_stdout) posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot start role ", spec.name, ": ", std::strerror(error)));
  }
  return pid;
}

absl::Status Supervisor::Start(RoleSpec spec) {
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, Spawn(spec, false));
  INGOT_LOG(info, "role {} started as process {}", spec.name, pid);
  Role role;
  role.spec = std::move(spec);
  role.pid = pid;
  roles_.push_back(std::move(role));
  return absl::OkStatus();
}

absl::StatusOr<int> Supervisor::Run(const std::atomic<bool>& stop,
                                    const std::function<void(const std::string&)>& on_status) {
  while (true) {
    if (stop) {
      on_status("stopping all roles");
      StopAll();
      return absl::CancelledError("stopped");
    }
    for (Role& role : roles_) {
      if (role.done) continue;
      const auto now = std::chrono::steady_clock::now();
      if (role.pid < 0) {
        if (now < role.start_after) continue;
        INGOT_ASSIGN_OR_RETURN(role.pid, Spawn(role.spec, true));
        on_status(absl::StrCat(role.spec.name, " started again (", role.restarts, " of ", options_.max_restarts, ")"));
        continue;
      }
      int wait_status = 0;
      const pid_t ended = waitpid(role.pid, &wait_status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
      role.pid = -1;
      const bool crashed = !WIFEXITED(wait_status) || (!role.spec.decides && WEXITSTATUS(wait_status) != 0);
      if (!crashed && role.spec.decides) {
        StopAll();
        return WEXITSTATUS(wait_status);
      }
      if (!crashed) {  // agents end by themselves when the scheduler has no more work
        role.done = true;
        on_status(absl::StrCat(role.spec.name, " is done"));
        continue;
      }
      const std::string what = absl::StrCat(role.spec.name, " ", Describe(wait_status), "; see ", role.spec.log_path);
      on_status(what);
      if (role.restarts >= options_.max_restarts) {
        StopAll();
        return absl::AbortedError(absl::StrCat(what, "; gave up after ", role.restarts, " restarts"));
      }
      ++role.restarts;
      role.start_after = now + options_.restart_delay;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void Supervisor::StopAll() {
  const auto running = [this] {
    bool any = false;
    for (Role& role : roles_) {
      if (role.pid > 0 && waitpid(role.pid, nullptr, WNOHANG) != 0) role.pid = -1;
      any = any || role.pid > 0;
    }
    return any;
  };
  for (const Role& role : roles_) {
    if (role.pid > 0) kill(role.pid, SIGTERM);
  }
  const auto deadline = std::chrono::steady_clock::now() + options_.stop_grace;
  while (running() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (Role& role : roles_) {
    if (role.pid <= 0) continue;
    kill(role.pid, SIGKILL);
    waitpid(role.pid, nullptr, 0);
    role.pid = -1;
  }
}

}  // namespace ingot::app
