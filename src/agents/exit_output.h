// The end of a program's output in one line, for its failure reason.
#pragma once

#include <string>
#include <string_view>

namespace ingot::agents {

// "; WHAT ends: LAST 400 BYTES" with control characters as spaces; empty if the output is only spaces.
std::string DescribeExitOutput(std::string_view what, std::string_view output);

// For a sandbox with its own root folder: what may be missing in it, if `reason` says that a command was not found or
// lacked a file; otherwise empty.
std::string MissingFilesHint(std::string_view reason);

}  // namespace ingot::agents
