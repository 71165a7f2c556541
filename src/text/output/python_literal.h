// Converts Python literals to JSON text and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// A Python literal as JSON text, spaced like Python's json.dumps: strings, numbers, True, False, None, lists, tuples,
// dicts with string keys, and JSON's own words. nullopt if it is not such a literal.
std::optional<std::string> JsonOfPython(std::string_view text);

// A JSON value as Python's repr prints it.
std::string PythonOfJson(const base::json::value& value);

// A string as quoted JSON text; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace ingot::text
