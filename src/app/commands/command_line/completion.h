// Shell completion of the command line: the words that may come next, and the scripts that ask for them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ingot::app {

// The words that may replace the last of `words`, which is partly typed; the words before it are complete. Empty = the
// shell offers files. `keys`: configuration keys, offered after --set, and without it for a command that takes
// overrides, after its other arguments.
std::vector<std::string> Completions(CLI::App& app, const std::vector<std::string>& words,
                                     const std::vector<std::string>& keys);

// The script for bash, zsh or fish. INVALID_ARGUMENT: another shell.
absl::StatusOr<std::string> CompletionScript(const std::string& shell);

}  // namespace ingot::app
