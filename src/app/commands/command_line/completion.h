// Completes commands in shells: computes the possible next words, and prints the scripts that the shells load.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ingot::app {

// Returns completions for the last of `words`, which may be incomplete. Empty = the shell completes file names. `keys`
// are configuration keys, offered after --set. For commands that accept overrides without --set, they are offered after
// the other arguments.
std::vector<std::string> Completions(CLI::App& app, const std::vector<std::string>& words,
                                     const std::vector<std::string>& keys);

// Returns the script for bash, zsh, or fish. Returns INVALID_ARGUMENT for any other shell.
absl::StatusOr<std::string> CompletionScript(const std::string& shell);

}  // namespace ingot::app
