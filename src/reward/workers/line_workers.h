// Processes in sandboxes that answer one line with one line, and stay up between questions.
//
//   Ask ──▶ an idle process, or a new one ──a line over a socket──▶ the program in its sandbox ──a line──▶ Ask returns
//
// A process is a sandbox, a thread in Sandbox::Run and a socket, which is the program's stdout and carries both
// directions. The program writes one line when it is ready, and then one line for each line that it reads. A process is
// replaced when it breaks, when it is late, after Options::most_uses questions, and when the program changes. Thread
// safe; Ask blocks. The substrates outlive the workers.
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
    int32_t processes = 1;         // at a time
    int32_t most_uses = 0;         // questions per process; 0 = no limit
    double load_s = 60;            // until a new process is ready, on a loaded machine
    size_t longest_reply = 65536;  // bytes
    std::string name;              // the program's key, for errors: "verifier.math.python"
    std::string advice;            // ends the error of a program that did not run; empty = none
  };

  struct Program {
    sandbox::Command command;                  // HOME, TMPDIR and the working folder are set here
    std::map<std::string, std::string> files;  // written to the working folder first: path to content
  };

  // What answers a question. Processes of another `key` do not: they were started for another program, or for an
  // earlier form of its files.
  struct Source {
    std::string key;
    std::function<absl::StatusOr<Program>()> make;  // called when a process is started
  };

  explicit LineWorkers(Options options);
  ~LineWorkers();

  // The answer to `line`, which must end with a line feed; the answer has none. `seconds`: for the answer of a process
  // that is ready. `cancel` may be null. DEADLINE_EXCEEDED: no answer in time; the process is gone. CANCELLED.
  // INTERNAL: the program did not run, or ended; the message says how. Otherwise the errors of `make` and of the
  // substrate.
  absl::StatusOr<std::string> Ask(sandbox::Substrate& substrate, const Source& source, const std::string& line,
                                  double seconds, const sandbox::Cancellation* cancel);

  // Ends the idle processes.
  void EndIdle();

  // Processes that were started so far.
  int64_t started() const;

 private:
  class Process;

  absl::StatusOr<std::unique_ptr<Process>> Acquire(sandbox::Substrate& substrate, const Source& source,
                                                   const sandbox::Cancellation* cancel);
  void Return(std::unique_ptr<Process> process);  // null = it broke
  absl::Status Failure(std::unique_ptr<Process> process, const absl::Status& why) const;

  const Options options_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<std::unique_ptr<Process>> idle_ ABSL_GUARDED_BY(mu_);  // the last one was used last
  int32_t busy_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t started_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ingot::reward
