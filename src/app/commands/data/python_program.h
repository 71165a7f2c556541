// Runs the Python programs of `ingot tasks import` and `ingot tasks generate`, which are outside the data path.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::app {

extern const std::string_view kTasksGenerate;  // commands/data/programs/tasks_generate.py

// Runs the program with `out` as its stdout, and the options as its argument. `python` is the interpreter; empty =
// reward::UserPython. Returns CANCELLED if the program failed, after it has printed the reason.
absl::Status RunPythonProgram(std::string python, std::string_view program, std::string options, int out);

}  // namespace ingot::app
