// Reads config.json keys for ModelConfig and the families. Errors are INVALID_ARGUMENT and name the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::model {

absl::Status BadKey(std::string_view key, std::string_view what);
bool IsNull(const base::json::value* v);  // absent or null
std::optional<int64_t> AsInt(const base::json::value& v);

// Reads `key` into `out`. If it is absent or null, leaves `out` unchanged, or returns an error if `required`.
absl::Status ReadInt(const base::json::value& json, std::string_view key, bool required, int64_t* out);
absl::Status ReadDouble(const base::json::value& json, std::string_view key, double* out);
absl::Status ReadBool(const base::json::value& json, std::string_view key, bool* out);
absl::Status ReadString(const base::json::value& json, std::string_view key, std::string* out);

// Returns INVALID_ARGUMENT unless the key's value is null, false, or `allowed`.
absl::Status RejectNumber(const base::json::value& json, std::string_view key, double allowed);
// Returns INVALID_ARGUMENT unless the key's value is null or `usual`.
absl::Status RejectOther(const base::json::value& json, std::string_view key, std::string_view usual);

}  // namespace ingot::model
