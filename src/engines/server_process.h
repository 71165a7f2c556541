// The server's process, if the role starts it. Not thread safe: one thread starts, watches, and ends it. The kernel ends
// the process with that thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::engines {

// Returns NOT_FOUND or PERMISSION_DENIED, naming the file, if the command's program cannot be started.
absl::Status CheckServerCommand(const std::vector<std::string>& command);

class ServerProcess {
 public:
  // `command` is a program with its arguments, after any environment variables (NAME=VALUE). In it, each ${NAME} becomes
  // its value in `words`, and ${port} a free port. Output is appended to `log_path`.
  ServerProcess(std::vector<std::string> command, std::map<std::string, std::string> words, std::string log_path);
  ~ServerProcess();  // calls Stop()
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Starts the server on another free port. REQUIRES: it does not run.
  absl::Status Start();
  // Kills the server and all processes of its session.
  void Stop();
  // Returns whether the server runs. A server that has ended is reaped.
  bool IsRunning();
  pid_t pid() const { return pid_; }  // -1 = it does not run
  // Returns the URL of the server on this machine. REQUIRES: Start.
  std::string url() const;

 private:
  const std::vector<std::string> command_;
  const std::map<std::string, std::string> words_;
  const std::string log_path_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace ingot::engines
