// The name of a function in the user's Python code: "FILE.py:NAME", where FILE may be relative to the directory where
// ingot was started, or "PACKAGE.MODULE:NAME" from the interpreter's environment.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::base {

struct PythonName {
  std::string place;  // "rewards.py" or "package.module"
  std::string name;

  bool in_file() const { return place.ends_with(".py"); }
};

// Splits the text at its last colon. The parts are unspecified if the text is invalid.
PythonName SplitPythonName(const std::string& text);

// Returns INVALID_ARGUMENT if `text` does not have one of these forms. The error names `key` and shows `example`.
absl::Status CheckPythonName(const std::string& key, const std::string& text, const std::string& example);

}  // namespace ingot::base
