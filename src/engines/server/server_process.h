// Manages the process of a server that the role starts. Not thread safe: one thread must start, watch, and end it. The
// kernel kills the process when that thread ends.
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
  // `command` is a program with its arguments, optionally preceded by environment variables (NAME=VALUE). Each ${NAME}
  // in it is replaced with its value in `words`, and ${port} with a free port. Output is appended to `log_path`.
  ServerProcess(std::vector<std::string> command, std::map<std::string, std::string> words, std::string log_path);
  ~ServerProcess();  // calls Stop()
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Starts the server on a new free port. REQUIRES: the server is not running.
  absl::Status Start();
  // Kills the server and all processes in its session.
  void Stop();
  // Returns whether the server is running. Reaps a server that has exited.
  bool IsRunning();
  pid_t pid() const { return pid_; }  // -1 = not running
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
