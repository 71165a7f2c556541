// Runs the Python programs of `ingot tasks import` and `ingot tasks generate`, which are outside the data path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::app {

extern const std::string_view kTasksGenerate;  // commands/data/programs/tasks_generate.py

// Runs the program with `out` as its stdout, and the options as its argument. `python` is the interpreter; empty =
// reward::UserPython. Returns CANCELLED if the program failed, after it has printed the reason.
absl::Status RunPythonProgram(std::string python, std::string_view program, std::string options, int out);

// Prints how many tasks the program wrote to the file `out`, or its error. Returns the command's exit code.
int ReportTasks(const absl::Status& status, size_t tasks, const std::string& out);

}  // namespace ingot::app
