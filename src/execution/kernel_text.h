#pragma once

#include <string_view>

namespace ingot::execution {

// The program of the interpreter (kernel.py).
extern const std::string_view kKernelText;

}  // namespace ingot::execution
