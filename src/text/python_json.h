// JSON text exactly as Python's json.dumps(value, ensure_ascii=False) prints it: what chat templates put tool
// definitions through, so what models have seen.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

std::string PythonJson(const base::json::value& value);

// Its parts: a string with its quotes, and repr() of a finite float (json's NaN, Infinity, -Infinity otherwise).
void AppendPythonJsonString(std::string_view text, std::string& out);
void AppendPythonFloat(double number, std::string& out);

}  // namespace ingot::text
