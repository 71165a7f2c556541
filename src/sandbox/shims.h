// Version managers (pyenv, rbenv, asdf, ..) put scripts into PATH that look for the real program in files that a sandbox
// does not see. Thread safe.
#pragma once

#include <string>

namespace ingot::sandbox {

// `path` with the folder of the real interpreter before each folder of such scripts, which is named "shims". Asks a
// script of python3, python, node, ruby or perl for its program, once for each `path`; blocks up to seconds. A script
// that does not answer adds nothing.
std::string PathBehindShims(const std::string& path);

}  // namespace ingot::sandbox
