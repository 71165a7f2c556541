// Parses and prints JSON values using the Boost.JSON types. The parser reports error locations, and the printers format
// numbers like Python. base/json_text.h reads JSON without converting it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

namespace json = boost::json;

// Returns INVALID_ARGUMENT with the line and column of the first error. If a key is repeated, its last value is used.
// The maximum depth is 100. simdjson does the parsing. Boost parses a second time to report errors and to handle
// integers beyond 64 bits. `storage` is the value's allocator, and the value shares ownership of it. A
// json::monotonic_resource is suitable for a value that is read once and discarded.
absl::StatusOr<json::value> ParseJson(std::string_view text, json::storage_ptr storage = {});

// Returns compact JSON. Object keys keep their order. A double is printed as the shortest decimal that reads back as
// the same value (1.0 as "1.0", not Boost's "1E0").
std::string PrintJson(const json::value& value);

// Appends a string to `out` in PrintJson's format, including quotes.
void AppendJsonString(std::string_view text, std::string& out);

// Like PrintJson, but with sorted object keys, so equal values print the same.
std::string CanonicalJson(const json::value& value);

// Returns an object's field, or nullptr if `value` is not an object or lacks the key.
const json::value* Find(const json::value& value, std::string_view key);

}  // namespace ingot::base
