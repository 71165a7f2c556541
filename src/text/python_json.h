// Returns JSON text exactly as Python's json.dumps(value, ensure_ascii=False) prints it. Chat templates print tool
// definitions this way, and models were trained on it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

std::string PythonJson(const base::json::value& value);

// Building blocks that append a quoted string, or a float as printed by repr() (json's NaN, Infinity, and -Infinity if
// not finite).
void AppendPythonJsonString(std::string_view text, std::string& out);
void AppendPythonFloat(double number, std::string& out);

}  // namespace ingot::text
