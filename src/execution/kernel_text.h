#pragma once

#include <string_view>

namespace ingot::execution {

// The source code of the interpreter's program (kernel.py).
extern const std::string_view kKernelText;

}  // namespace ingot::execution
