// Calls the user's Python reward function in sandboxed processes that are reused between calls.
//
//   Call ──a line of JSON──▶ the interpreter in a sandbox: loads FILE.py once, calls NAME ──a line of JSON──▶ result
//
// A process gets copies of FILE.py and the other .py files in its folder, so neither agents nor the function can access
// the folder itself. If one of these files changes, new processes are started. The output of print() appears only in
// the errors of failed calls. The worker passes the arguments that are in the function's signature.
//
// Thread safe. Call blocks for up to a minute for a new process, and then for up to `timeout_s`. The substrates must
// outlive this object.
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
  // `key` is the section of the options in the configuration, for errors. REQUIRES: options.Validate() is OK.
  PythonFunction(PythonOptions options, std::string key);

  // Returns the function's result as JSON. `arguments` is a JSON object with the available arguments. `archive` is a
  // tar whose regular files below work/ become the argument `files`; empty = none. `cwd` is the directory where ingot
  // was started. Returns INVALID_ARGUMENT if the file cannot be read, and INTERNAL if the function cannot be loaded,
  // has an unknown argument, raised an exception (the error includes its stack trace), or returned an invalid result.
  // Also returns the errors of LineWorkers::Ask.
  absl::StatusOr<std::string> Call(sandbox::Substrate& substrate, const std::string& cwd, const std::string& arguments,
                                   const std::string& archive, const sandbox::Cancellation* cancel) const;

  // Loads the function in a sandbox without calling it. `arguments` are the available names. Errors are as for Call.
  absl::Status Load(sandbox::Substrate& substrate, const std::string& cwd,
                    const std::vector<std::string>& arguments) const;

  // Returns the program of a process, or INVALID_ARGUMENT if the file cannot be read.
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
