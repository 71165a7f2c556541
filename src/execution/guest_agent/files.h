// Performs file operations in the sandbox with the same view and permissions as its commands. They never wait for
// another process, because pipes and devices are not treated as files.
#pragma once

#include <string>
#include <string_view>

#include "execution/guest_agent_messages.h"

namespace ingot::execution::guest_agent {

// Executes a kFile request. Returns an errno, or 0 with the result in `answer`.
int DoFile(FileOp op, std::string_view payload, std::string& answer);

}  // namespace ingot::execution::guest_agent
