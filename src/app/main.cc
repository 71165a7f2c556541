// Ingot's main function, which dispatches to the commands (command_line/command.h).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <system_error>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/command_line/command_errors.h"
#include "app/run/process.h"
#include "app/run/thread_waits.h"
#include "app/run/threads.h"
#include "base/log.h"

namespace ingot::app {
namespace {

// If the system does not allow another thread, the command ends with an error. Libraries may throw this error anywhere.
int RunOrFail(const Command::Run& run) {
  try {
    return run();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    return Fail(TooFewThreads(error.what()));
  }
}

// Returns the exit code for a command whose result is on stdout. If the result could not be written, for example
// because the disk is full, the command has failed.
int Answered(int code) {
  std::cout.flush();
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  const char* const why = errno == 0 ? "a part of it was lost; is the disk full?" : std::strerror(errno);
  const int failed = Fail(absl::UnavailableError(absl::StrCat("cannot write the output: ", why)));
  return code == 0 ? failed : code;
}

// Adds `commands` to the parser. The command that is run sets `code`.
void AddCommands(CLI::App& parser, const std::vector<Command>& commands, int& code) {
  parser.require_subcommand(1);
  for (const Command& command : commands) {
    CLI::App* const own = parser.add_subcommand(command.name, command.summary);
    if (!command.group.empty()) AddCommands(*own, command.group, code);
    if (command.declare != nullptr) {
      own->require_subcommand(0, 1);
      own->callback([own, run = command.declare(*own), hides = command.holds_keys, logs = command.logs, &code] {
        if (!own->get_subcommands().empty()) return;
        if (hides) HideMemory();
        code = RunOrFail(run);
        if (!logs) code = Answered(code);
      });
    }
  }
}

// Runs the command that `argv` names; returns the exit code.
int RunCommandLine(int argc, char** argv) {
  const std::vector<Command> commands = Commands();
  const auto computes = [&](const Command& command) { return command.computes && command.name == argv[1]; };
  if (argc > 1 && std::any_of(commands.begin(), commands.end(), computes)) BoundSpinning(argv);
  base::InitLogging("ingot", "info", "");         // to stderr, because stdout has only the command's result
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // line-buffered, so that a run redirected to a file can be watched
  CLI::App app("Ingot: asynchronous reinforcement learning for agents");
  app.set_version_flag("--version", "ingot " INGOT_VERSION);
  int code = 0;
  AddCommands(app, commands, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version, unless an unknown word precedes them.
    if (error.get_exit_code() == 0 && app.remaining(true).empty()) return Answered(app.exit(error));
    std::cerr << DescribeError(app, error) << "\n";
    return 2;
  }
  return code;
}

// Ends the process without the destructors of libraries' static objects, which free LibTorch's operators one by one for
// longer than most commands run. Sanitizers look for leaks in the normal end.
int End(int code) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
#endif
  return code;
}

}  // namespace
}  // namespace ingot::app

int main(int argc, char** argv) { return ingot::app::End(ingot::app::RunCommandLine(argc, argv)); }
