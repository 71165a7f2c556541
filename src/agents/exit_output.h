// The end of a program's output, in one line, for the reason why it failed.
#pragma once

#include <string>
#include <string_view>

namespace ingot::agents {

// "; WHAT ends: LAST 400 BYTES" with control characters as spaces; nothing if there is no output but spaces.
std::string DescribeExitOutput(std::string_view what, std::string_view output);

// What may be missing, where `reason` tells of a command that was not found or lacked a file, in a sandbox with a root folder
// of its own; else nothing.
std::string MissingFilesHint(std::string_view reason);

}  // namespace ingot::agents
