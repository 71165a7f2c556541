// JSON: Boost.JSON's values behind one header, read by simdjson, with errors that name the place and numbers printed as
// Python's json prints them.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

namespace json = boost::json;

// INVALID_ARGUMENT naming line and column of the first fault; duplicate keys keep the last value, depth at most 100.
// `storage`: where the value's memory is from, kept alive by it; a json::monotonic_resource for what is read once and
// dropped.
absl::StatusOr<json::value> ParseJson(std::string_view text, json::storage_ptr storage = {});

// How many values well-formed `text` has, in time linear in it and without reading it: what it takes once it is read
// goes by them, not by its bytes.
size_t CountJsonValues(std::string_view text);

// `text` with every escape of half a surrogate pair (RFC 8259, section 8.2: "\ud83d" without its second half) made
// that of U+FFFD, each in its place; nullopt: there is none. Clients that cut a string by UTF-16 units send them.
std::optional<std::string> WithoutLoneSurrogates(std::string_view text);

// Compact text; object keys keep their order; a double prints as the shortest decimal that reads back equal (1.0 as
// "1.0", not Boost's "1E0").
std::string PrintJson(const json::value& value);

// A string as PrintJson prints it, quotes and all, behind what `out` holds.
void AppendJsonString(std::string_view text, std::string& out);

// PrintJson with object keys sorted: two equal values print equal, for comparing what a client echoes.
std::string CanonicalJson(const json::value& value);

// Field of an object; nullptr if `value` is no object or has no such key.
const json::value* Find(const json::value& value, std::string_view key);

}  // namespace ingot::base
