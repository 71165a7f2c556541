// Files of the sandbox, as its commands see them and with their rights. Nothing here waits for another process: pipes
// and devices are not files.
#pragma once

#include <string>
#include <string_view>

#include "execution/guest_agent_messages.h"

namespace ingot::execution::guest_agent {

// Carries out a kFile. Returns an errno, 0 with the answer in `answer`.
int DoFile(FileOp op, std::string_view payload, std::string& answer);

}  // namespace ingot::execution::guest_agent
