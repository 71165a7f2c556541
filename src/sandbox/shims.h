// Adds the real programs' folders to PATH. Version managers (pyenv, rbenv, asdf, ...) put scripts in PATH that look up
// the real program in files that a sandbox cannot see. Thread safe.
#pragma once

#include <string>

namespace ingot::sandbox {

// Returns `path` with the real interpreter's folder inserted before each folder named "shims". Runs the scripts for
// python3, python, node, ruby, and perl to find their programs, once per distinct `path`. May block for seconds.
// Ignores scripts that fail or time out.
std::string PathBehindShims(const std::string& path);

}  // namespace ingot::sandbox
