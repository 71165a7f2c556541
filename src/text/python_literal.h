// Values as Python source writes them, to JSON text and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// A Python literal (strings, numbers, True, False, None, lists, tuples, dicts with string keys; JSON's words too) as
// JSON text, spaced as Python's json.dumps does. nullopt if it is none.
std::optional<std::string> JsonOfPython(std::string_view text);

// A JSON value as Python's repr writes it.
std::string PythonOfJson(const base::json::value& value);

// A string as JSON text in quotes; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace ingot::text
