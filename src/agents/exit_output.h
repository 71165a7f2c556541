// Formats the end of a program's output as one line for failure messages.
#pragma once

#include <string>
#include <string_view>

namespace ingot::agents {

// Returns "; WHAT ends: LAST 400 BYTES" with control characters replaced by spaces, or "" if the output is blank.
std::string DescribeExitOutput(std::string_view what, std::string_view output);

// For a sandbox with its own root directory. If `reason` is that a command or its file was not found, describes what
// may be missing there. Otherwise, returns "".
std::string MissingFilesHint(std::string_view reason);

}  // namespace ingot::agents
