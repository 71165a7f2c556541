// A reward function that the user wrote in Python, in processes in sandboxes that stay up between calls.
//
//   Call ──a line of JSON──▶ the interpreter in a sandbox: loads FILE.py once, calls NAME ──a line of JSON──▶ result
//
// A process gets copies of FILE.py and of the other .py files in its folder, so neither agents nor the function see that
// folder. When one of them changes, new processes are started. print() reaches nobody but the error of a call that
// fails. The worker passes the arguments that the function names in its signature.
//
// Thread safe; Call blocks up to a minute for a new process and then up to `timeout_s`. The substrates outlive it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/python/python_options.h"
#include "reward/workers/line_workers.h"

namespace ingot::reward {

class PythonFunction {
 public:
  // `key`: the options' section in the configuration, for errors. REQUIRES: options.Validate().
  PythonFunction(PythonOptions options, std::string key);

  // The function's result as JSON. `arguments`: a JSON object of the values that it may name. `archive`: a tar whose
  // regular files below work/ become its argument `files`; empty = none. `cwd`: the folder in which ingot was started.
  // INVALID_ARGUMENT: the file cannot be read. INTERNAL: it cannot be loaded, names an argument that does not exist,
  // raised an exception (with its stack trace), or returned something that is not a result. Otherwise the errors of
  // LineWorkers::Ask.
  absl::StatusOr<std::string> Call(sandbox::Substrate& substrate, const std::string& cwd, const std::string& arguments,
                                   const std::string& archive, const sandbox::Cancellation* cancel) const;

  // Loads the function in a sandbox and calls nothing. `arguments`: the names that it may use. Errors as for Call.
  absl::Status Load(sandbox::Substrate& substrate, const std::string& cwd,
                    const std::vector<std::string>& arguments) const;

  // What a process runs. INVALID_ARGUMENT: the file cannot be read.
  absl::StatusOr<LineWorkers::Program> ProgramIn(const std::string& cwd) const;

  const PythonOptions& options() const { return options_; }

 private:
  absl::StatusOr<std::string> Ask(sandbox::Substrate& substrate, const std::string& cwd, const std::string& question,
                                  double seconds, const sandbox::Cancellation* cancel) const;

  const PythonOptions options_;
  const std::string key_;
  mutable LineWorkers workers_;
};

}  // namespace ingot::reward
