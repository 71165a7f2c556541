// JSON values: Boost.JSON's types, a parser that names the place of a fault, and printers that write numbers as Python
// does. base/json_text.h reads JSON without converting it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

namespace json = boost::json;

// INVALID_ARGUMENT names the line and column of the first fault. The last value of a duplicate key counts. Depth is at
// most 100. simdjson reads the text; Boost reads it again for errors and for integers beyond 64 bits. `storage`: the
// value's allocator, which the value keeps alive. A json::monotonic_resource suits a value that is read once and
// dropped.
absl::StatusOr<json::value> ParseJson(std::string_view text, json::storage_ptr storage = {});

// Compact text; object keys keep their order; a double prints as the shortest decimal that reads back equal (1.0 as
// "1.0", not Boost's "1E0").
std::string PrintJson(const json::value& value);

// Appends a string to `out` as PrintJson prints it, with its quotes.
void AppendJsonString(std::string_view text, std::string& out);

// PrintJson with object keys sorted: equal values print equal.
std::string CanonicalJson(const json::value& value);

// A field of an object; nullptr if `value` is not an object or lacks the key.
const json::value* Find(const json::value& value, std::string_view key);

}  // namespace ingot::base
