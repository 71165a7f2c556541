// A child process that answers numbered requests. Its stdin is a bidirectional socket. Each request is a JSON object
// with an "n" field. Its reply is a JSON object with the same "n", and with "error" if the request failed.
//
//   Ask ──{"n": 4, ..}──▶ socket ──▶ the program ──{"n": 4}──▶ Ask returns
//
// A reply that arrives after its request's deadline is ignored. At most one request is partially written, so no
// requests pile up in memory if the program does not read them. Not thread safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/status.h"

namespace ingot::loggers {

struct LineProcessOptions {
  std::string name;               // for errors
  std::vector<std::string> argv;  // argv[0] is looked up in the PATH of `env`
  std::map<std::string, std::string> env;
  std::string output;  // file to which its stdout and stderr are appended; empty = /dev/null
};

class LineProcess {
 public:
  explicit LineProcess(LineProcessOptions options) : options_(std::move(options)) {}
  ~LineProcess();  // kills the process
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Starts the process, which inherits no descriptors. Returns the errors of sandbox::Spawn.
  absl::Status Start();
  bool running() const { return pid_ > 0; }

  // Adds "n" to `request`, sends it, and returns the reply. Returns DEADLINE_EXCEEDED if there is no reply after
  // `timeout`, INTERNAL with the program's error message if the request failed, and ABORTED with the exit status if the
  // process has exited.
  absl::StatusOr<base::json::object> Ask(base::json::object request, std::chrono::milliseconds timeout);

  // Closes the process's stdin, and kills the process if it has not exited after `timeout`. Does nothing if the process
  // is not running.
  void Stop(std::chrono::milliseconds timeout);

 private:
  using Time = std::chrono::steady_clock::time_point;
  absl::Status Flush(Time end);                      // writes unsent_
  absl::StatusOr<std::string> ReadLine(Time end);    // without its line feed
  absl::Status Await(short events, Time end) const;  // poll(2); returns DEADLINE_EXCEEDED
  absl::Status Ended();                              // reaps the process and describes its exit status

  const LineProcessOptions options_;
  pid_t pid_ = 0;  // 0 = not running
  base::Fd socket_;
  int64_t asked_ = 0;  // "n" of the last request
  std::string unsent_, received_;
};

}  // namespace ingot::loggers
