// The options of a reward function in Python: of the verifier and of the reward term of kind python.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::reward {

struct PythonOptions {
  // "FILE.py:NAME", where a relative FILE begins in the folder in which ingot was started, or "PACKAGE.MODULE:NAME" of
  // the interpreter's environment.
  std::string function;
  std::string interpreter;  // empty = UserPython
  double timeout_s = 60;
  int32_t workers = 1;
  bool files = false;  // of a verifier

  // FILE.py; empty = the function is in a module.
  std::string File() const;
  // INVALID_ARGUMENT: `function` has another form.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, PythonOptions& options);

// The interpreter that runs the user's Python where no key names one: INGOT_PYTHON, which the installed package sets to
// its own environment's; else the active virtual environment's; else python3.
std::string UserPython();

}  // namespace ingot::reward
