#include "app/commands/data/python_program.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "app/run/process.h"
#include "reward/python/python_options.h"

namespace ingot::app {

absl::Status RunPythonProgram(std::string python, std::string_view program, std::string options, int out) {
  if (python.empty()) python = reward::UserPython();
  std::string dash_c = "-c", text(program);
  char* const argv[] = {python.data(), dash_c.data(), text.data(), options.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot run '", python, "': ", std::strerror(error), "; name a Python interpreter with --python"));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::CancelledError("its message is above");
}

int ReportTasks(const absl::Status& status, size_t tasks, const std::string& out) {
  if (absl::IsCancelled(status)) return 2;  // the program has printed the reason
  if (!status.ok()) return Fail(status);
  std::printf("%zu tasks in %s\n", tasks, out.c_str());
  return 0;
}

}  // namespace ingot::app
