// Completion of the command line in shells: the words that may come next, and the scripts that ask for them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ingot::app {

// The words that may stand in place of the last of `words`, which is what was typed of it; the words before it are whole.
// None = the shell offers files. `keys`: of the configuration, offered behind --set, and without it to a command that takes
// overrides, behind the words that it takes before them.
std::vector<std::string> Completions(CLI::App& app, const std::vector<std::string>& words,
                                     const std::vector<std::string>& keys);

// The script for bash, zsh or fish. INVALID_ARGUMENT: another shell.
absl::StatusOr<std::string> CompletionScript(const std::string& shell);

}  // namespace ingot::app
