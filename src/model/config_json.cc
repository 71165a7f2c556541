#include "model/config_json.h"
#include "base/printable.h"

#include <limits>

namespace ingot::model {

using base::Find;
using base::json::value;

absl::Status BadKey(std::string_view key, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("model configuration: '", base::View(key), "' ", base::CutMessage(what)));
}

bool IsNull(const value* v) { return v == nullptr || v->is_null(); }

std::optional<int64_t> AsInt(const value& v) {
  if (v.is_int64()) return v.get_int64();
  if (v.is_uint64() && v.get_uint64() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return static_cast<int64_t>(v.get_uint64());
  }
  return std::nullopt;
}

static std::optional<double> AsDouble(const value& v) {
  if (v.is_double()) return v.get_double();
  if (const auto integer = AsInt(v)) return static_cast<double>(*integer);
  return std::nullopt;
}

absl::Status ReadInt(const value& json, std::string_view key, bool required, int64_t* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return required ? BadKey(key, "is missing") : absl::OkStatus();
  const auto number = AsInt(*v);
  if (!number.has_value()) return BadKey(key, "must be an integer");
  *out = *number;
  return absl::OkStatus();
}

absl::Status ReadDouble(const value& json, std::string_view key, double* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  const auto number = AsDouble(*v);
  if (!number.has_value()) return BadKey(key, "must be a number");
  *out = *number;
  return absl::OkStatus();
}

absl::Status ReadBool(const value& json, std::string_view key, bool* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  if (!v->is_bool()) return BadKey(key, "must be true or false");
  *out = v->get_bool();
  return absl::OkStatus();
}

absl::Status ReadString(const value& json, std::string_view key, std::string* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  if (!v->is_string()) return BadKey(key, "must be a string");
  *out = std::string(v->get_string());
  return absl::OkStatus();
}

absl::Status RejectNumber(const value& json, std::string_view key, double allowed) {
  double number = allowed;
  INGOT_RETURN_IF_ERROR(ReadDouble(json, key, &number));
  return number == allowed ? absl::OkStatus() : BadKey(key, absl::StrCat("is ", number, ", which is not supported"));
}

absl::Status RejectOther(const value& json, std::string_view key, std::string_view usual) {
  std::string stated(usual);
  INGOT_RETURN_IF_ERROR(ReadString(json, key, &stated));
  if (stated == usual) return absl::OkStatus();
  return BadKey(key, absl::StrCat("is '", stated, "', only ", base::View(usual), " is supported"));
}

}  // namespace ingot::model
