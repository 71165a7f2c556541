#include "sandbox/shims.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerTime{10};

struct Interpreter {
  const char* name;
  const char* option;
  const char* program;  // prints the interpreter's path
};
constexpr std::array kInterpreters = {
    Interpreter{"python3", "-c", "import sys; print(sys.executable)"},
    Interpreter{"python", "-c", "import sys; print(sys.executable)"}, Interpreter{"node", "-p", "process.execPath"},
    Interpreter{"ruby", "-e", "puts RbConfig.ruby"}, Interpreter{"perl", "-e", "print $^X"}};

std::map<std::string, std::string> WholeEnvironment() {
  std::map<std::string, std::string> env;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0) env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

// Returns the folder of the program that the script starts; empty = unknown.
std::string FolderBehind(const std::string& script, const Interpreter& interpreter) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  const Fd out(ends[0]);
  Fd in(ends[1]);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Command command{.argv = {script, interpreter.option, interpreter.program},
                        .env = WholeEnvironment(),
                        .working_dir = "",
                        .stdin_text = ""};
  const absl::StatusOr<pid_t> pid = Spawn(command, {.in = null.get(), .out = in.get(), .err = null.get()}, {});
  in.Reset();
  if (!pid.ok()) return "";
  const absl::StatusOr<int> status = AwaitChild(*pid, script, kAnswerTime);
  if (!status.ok() || *status != 0) return "";
  std::array<char, 4096> text{};
  const ssize_t size = read(out.get(), text.data(), text.size());  // smaller than a pipe's capacity
  if (size <= 0) return "";
  const fs::path program(
      std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), static_cast<size_t>(size)))));
  return program.is_absolute() ? program.parent_path().string() : "";
}

std::string Resolve(const std::string& path) {
  const std::vector<std::string> folders = absl::StrSplit(path, ':');
  std::vector<std::string> resolved;
  const auto has = [](const std::vector<std::string>& list, const std::string& folder) {
    return std::find(list.begin(), list.end(), folder) != list.end();
  };
  for (const std::string& folder : folders) {
    if (fs::path(folder).filename() == "shims") {
      for (const Interpreter& interpreter : kInterpreters) {
        const std::string script = absl::StrCat(folder, "/", interpreter.name);
        if (!folder.starts_with('/') || access(script.c_str(), X_OK) != 0) continue;
        const std::string real = FolderBehind(script, interpreter);
        if (!real.empty() && real != folder && !has(resolved, real)) resolved.push_back(real);
      }
    }
    resolved.push_back(folder);
  }
  return absl::StrJoin(resolved, ":");
}

}  // namespace

std::string PathBehindShims(const std::string& path) {
  if (path.find("shims") == std::string::npos) return path;
  static base::Mutex mu;
  static auto* const known = new std::map<std::string, std::string>();
  base::MutexLock lock(mu);
  const auto found = known->find(path);
  if (found != known->end()) return found->second;
  return known->emplace(path, Resolve(path)).first->second;
}

}  // namespace ingot::sandbox
