// Sandboxed processes that answer each line with one line and are reused between questions.
//
//   Ask ──▶ an idle process, or a new one ──a line over a socket──▶ the program in its sandbox ──a line──▶ Ask returns
//
// A process is a sandbox, a thread in Sandbox::Run, and a socket, which is the program's stdout and works in both
// directions. The program writes one line when it is ready, and then one line for each line that it reads. A process is
// replaced if it fails or is late, after Options::most_uses questions, and when the program changes. Thread safe. Ask
// blocks. The substrates must outlive the workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::reward {

class LineWorkers {
 public:
  struct Options {
    int32_t processes = 1;         // maximum number of processes at a time
    int32_t most_uses = 0;         // questions per process; 0 = no limit
    double load_s = 60;            // time limit until a new process is ready; allows for a loaded machine
    size_t longest_reply = 65536;  // bytes
    std::string name;              // the program's key, for errors, such as "verifier.math.python"
    std::string advice;            // appended to the error if the program did not run; empty = none
  };

  struct Program {
    sandbox::Command command;                  // LineWorkers sets HOME, TMPDIR, and the working directory
    std::map<std::string, std::string> files;  // path -> content; written to the working directory first
  };

  // The program that answers a question. Processes with a different `key` are not used, because they run another
  // program or an earlier version of its files.
  struct Source {
    std::string key;
    std::function<absl::StatusOr<Program>()> make;  // called before a process is started
  };

  explicit LineWorkers(Options options);
  ~LineWorkers();

  // Returns the answer to `line`, without its line feed. `line` must end with a line feed. A process that is ready has
  // `seconds` to answer. `cancel` may be null. Returns DEADLINE_EXCEEDED if the process did not answer in time and was
  // killed, CANCELLED if `cancel` was used, and INTERNAL if the program did not run or exited; the message gives the
  // details. Also returns the errors of `make` and the substrate.
  absl::StatusOr<std::string> Ask(sandbox::Substrate& substrate, const Source& source, const std::string& line,
                                  double seconds, const sandbox::Cancellation* cancel);

  // Ends the idle processes.
  void EndIdle();

  // Returns the number of processes started so far.
  int64_t started() const;

 private:
  class Process;

  absl::StatusOr<std::unique_ptr<Process>> Acquire(sandbox::Substrate& substrate, const Source& source,
                                                   const sandbox::Cancellation* cancel);
  void Return(std::unique_ptr<Process> process);  // null = it failed
  absl::Status Failure(std::unique_ptr<Process> process, const absl::Status& why) const;

  const Options options_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<std::unique_ptr<Process>> idle_ ABSL_GUARDED_BY(mu_);  // most recently used last
  int32_t busy_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t started_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ingot::reward
