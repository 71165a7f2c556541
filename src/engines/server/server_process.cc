#include "engines/server/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/fd.h"
#include "sandbox/spawn.h"

namespace ingot::engines {
namespace {

// Returns a loopback port that no process currently listens on.
absl::StatusOr<int> FreePort() {
  const base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (!socket.valid() || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "no port is free for the server of rollout.external.command");
  }
  return ntohs(address.sin_port);
}

// The server needs the user's own variables, such as those of its accelerator.
std::map<std::string, std::string> WholeEnvironment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

// Returns whether the word is NAME=VALUE.
bool IsVariable(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && word.find('/') > equals;
}

sandbox::Command CommandOf(const std::vector<std::string>& words) {
  sandbox::Command command;
  command.env = WholeEnvironment();
  for (const std::string& word : words) {
    if (command.argv.empty() && IsVariable(word)) {
      const size_t equals = word.find('=');
      command.env[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      command.argv.push_back(word);
    }
  }
  return command;
}

}  // namespace

absl::Status CheckServerCommand(const std::vector<std::string>& command) {
  const sandbox::Command words = CommandOf(command);
  if (words.argv.empty()) return absl::InvalidArgumentError("rollout.external.command has no program");
  return base::Annotate(sandbox::FindProgram(words).status(), "rollout.external.command");
}

ServerProcess::ServerProcess(std::vector<std::string> command, std::map<std::string, std::string> words,
                             std::string log_path)
    : command_(std::move(command)), words_(std::move(words)), log_path_(std::move(log_path)) {}

ServerProcess::~ServerProcess() { Stop(); }

std::string ServerProcess::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

absl::Status ServerProcess::Start() {
  INGOT_ASSIGN_OR_RETURN(port_, FreePort());
  std::vector<std::pair<std::string, std::string>> values = {{"${port}", absl::StrCat(port_)}};
  for (const auto& [name, value] : words_) values.emplace_back(absl::StrCat("${", name, "}"), value);
  std::vector<std::string> words;
  for (const std::string& word : command_) words.push_back(absl::StrReplaceAll(word, values));
  const sandbox::Command command = CommandOf(words);
  const base::Fd log(::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) return absl::ErrnoToStatus(errno, log_path_);
  const base::Fd none(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!none.valid()) return absl::ErrnoToStatus(errno, "/dev/null");
  const absl::StatusOr<pid_t> started = sandbox::Spawn(command, {.in = none.get(), .out = log.get(), .err = log.get()},
                                                       {.own_session = true, .dies_with_its_thread = true});
  if (!started.ok()) return base::Annotate(started.status(), "rollout.external.command");
  pid_ = *started;
  return absl::OkStatus();
}

void ServerProcess::Stop() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);  // the session's leader also leads its process group
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

bool ServerProcess::IsRunning() {
  if (pid_ < 0) return false;
  const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
  ::kill(-pid_, SIGKILL);  // processes that it started
  pid_ = -1;
  return false;
}

}  // namespace ingot::engines
