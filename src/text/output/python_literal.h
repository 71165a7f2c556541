// Converts Python literals to JSON text and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// Converts a Python literal to JSON text, spaced as in Python's json.dumps. Accepts strings, numbers, True, False,
// None, lists, tuples, dicts with string keys, and JSON's own keywords. Returns nullopt for anything else.
std::optional<std::string> JsonOfPython(std::string_view text);

// Returns a JSON value as Python's repr would print it.
std::string PythonOfJson(const base::json::value& value);

// Returns a string as quoted JSON text. Invalid UTF-8 bytes become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace ingot::text
