// Options for a Python reward function, shared by the verifier and the reward term of kind python.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::reward {

struct PythonOptions {
  // "FILE.py:NAME", where FILE may be relative to the directory where ingot was started, or "PACKAGE.MODULE:NAME" from
  // the interpreter's environment.
  std::string function;
  std::string interpreter;  // empty = UserPython
  double timeout_s = 60;
  int32_t workers = 1;
  bool files = false;  // only for the verifier

  // Returns FILE.py, or empty if the function is in a module.
  std::string File() const;
  // Returns INVALID_ARGUMENT if `function` is not in one of these forms.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, PythonOptions& options);

// Returns the default interpreter for the user's Python code: INGOT_PYTHON, which the installed package sets to its own
// environment's interpreter, or else the active virtual environment's interpreter, or else python3.
std::string UserPython();

}  // namespace ingot::reward
