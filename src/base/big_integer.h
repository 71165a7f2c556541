// Integers beyond 64 bits in JSON values. base::ParseJson makes them doubles, which lose digits; a prompt has to show them
// as the client wrote them, as Python's json does.
//
//   {"id": 18446744073709551616}  ──ParseJsonExactly──▶  a value with these digits  ──PrintJson──▶  {"id":18446744073709551616}
//
// Such a value is a number for base::PrintJson, text::PythonJson and templates. To other code it is an object.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::base {

// ParseJson, but an integer beyond 64 bits keeps its digits.
absl::StatusOr<json::value> ParseJsonExactly(std::string_view text, json::storage_ptr storage = {});

// The digits of an integer beyond 64 bits, with its sign; empty = the value is another one. No text from outside makes
// such a value otherwise: it is an object whose key is not UTF-8.
std::string_view BigInteger(const json::value& value);

}  // namespace ingot::base
