// JSON text exactly as Python's json.dumps(value, ensure_ascii=False) prints it. Chat templates print tool definitions
// this way, and models were trained on it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

std::string PythonJson(const base::json::value& value);

// Building blocks: a quoted string, and a float as repr() prints it, or json's NaN, Infinity, -Infinity.
void AppendPythonJsonString(std::string_view text, std::string& out);
void AppendPythonFloat(double number, std::string& out);

}  // namespace ingot::text
