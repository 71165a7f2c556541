// JSON text exactly as Python's json.dumps(value, ensure_ascii=False) prints it: what chat templates put tool
// definitions through, so what models have seen.
#pragma once

#include <string>

#include "base/json.h"

namespace ingot::text {

std::string PythonJson(const base::json::value& value);

}  // namespace ingot::text
