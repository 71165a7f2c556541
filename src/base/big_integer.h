// Preserves integers beyond 64 bits in JSON values. base::ParseJson turns them into doubles and loses digits, but
// prompts must show them exactly as the client wrote them, as Python's json module does.
//
//   {"id": 18446744073709551616} ──ParseJsonExactly──▶ value with its digits ──PrintJson──▶ {"id":18446744073709551616}
//
// base::PrintJson, text::PythonJson, and templates treat such a value as a number. To other code it is an object.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::base {

// Same as ParseJson, but integers beyond 64 bits keep their digits.
absl::StatusOr<json::value> ParseJsonExactly(std::string_view text, json::storage_ptr storage = {});

// Returns the digits and sign of an integer beyond 64 bits, or empty for any other value. Untrusted JSON cannot forge
// such a value, because it is stored as an object whose key is not UTF-8.
std::string_view BigInteger(const json::value& value);

}  // namespace ingot::base
