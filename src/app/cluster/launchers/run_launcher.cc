#include "app/cluster/launchers/run_launcher.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sandbox/spawn.h"

extern char** environ;

namespace ingot::app {
namespace {

sandbox::Fd NamelessFile() {
  const std::string path = absl::StrCat("/tmp/ingot-", base::RandomHex(8));
  sandbox::Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid()) unlink(path.c_str());
  return file;
}

// Returns the file's content without surrounding whitespace.
std::string TextOf(const sandbox::Fd& file) {
  std::string text;
  std::array<char, 4096> bytes;
  lseek(file.get(), 0, SEEK_SET);
  for (ssize_t got = 0; (got = read(file.get(), bytes.data(), bytes.size())) > 0;) text.append(bytes.data(), got);
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace

absl::StatusOr<std::string> RunHere(const std::vector<std::string>& argv) {
  return RunWithin(std::chrono::minutes(1), argv);
}

absl::StatusOr<std::string> RunWithin(std::chrono::milliseconds timeout, const std::vector<std::string>& argv) {
  // Output goes to files because a pipe could fill up. Warnings from a successful command are not part of its output.
  const sandbox::Fd out = NamelessFile(), err = NamelessFile();
  const sandbox::Fd none(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out.valid() || !err.valid() || !none.valid()) {
    return sandbox::ErrnoStatus(errno, absl::StrCat("cannot run ", argv.front()));
  }
  sandbox::Command command{.argv = argv, .env = {}, .working_dir = "", .stdin_text = ""};
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const std::string_view variable = *inherited;
    const size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    command.env.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, sandbox::Spawn(command, {none.get(), out.get(), err.get()},
                                                         {.own_session = false, .dumps_core = false}));
  INGOT_ASSIGN_OR_RETURN(const int status, sandbox::AwaitChild(pid, argv.front(), timeout));
  const std::string answer = TextOf(out);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return answer;
  std::string reported = TextOf(err);
  if (!reported.empty() && !answer.empty()) reported += "\n";
  reported += answer;
  return absl::UnavailableError(
      absl::StrCat(absl::StrJoin(argv, " "), ": ", reported.empty() ? "it failed without output" : reported));
}

absl::StatusOr<int> JobLauncher::Watch(const std::atomic<bool>& stop) {
  std::string last;
  bool reported = false;
  for (;; std::this_thread::sleep_for(options_.poll)) {
    if (stop && !reported) {
      reported = true;
      Report(absl::StrCat("stopping ", Describe(), " in order"));
      if (const absl::Status stopped = Stop(); !stopped.ok()) Report(std::string(stopped.message()));
    }
    const absl::StatusOr<State> state = Poll();
    if (!state.ok()) {
      Report(std::string(state.status().message()));  // the job's scheduler may be busy, and the job continues
      continue;
    }
    if (!state->text.empty() && std::exchange(last, state->text) != state->text) {
      Report(absl::StrCat(Describe(), " is ", state->text));
    }
    if (!state->over) continue;
    if (reported) return absl::CancelledError("stopped");
    if (state->code.has_value()) return *state->code;
    return absl::AbortedError(absl::StrCat(Describe(), " ended without an exit code: ", Advice()));
  }
}

}  // namespace ingot::app
