// Reads the fields of one JSON object of a request. `status` keeps the first fault, which names its field. A null field
// counts as missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::gateway {

class Fields {
 public:
  // `json` outlives this object; a value that is not an object has no fields. `path` precedes field names in errors.
  explicit Fields(const base::json::value& json, std::string path = "");

  // nullptr: the field is missing or null.
  const base::json::value* Get(std::string_view name) const;
  // The same; a fault if the field is not an object, or not a list of at most `max` entries.
  const base::json::object* Object(std::string_view name);
  const base::json::array* List(std::string_view name, size_t max);

  // Each Read leaves `out` unchanged if the field is missing or has a fault.
  void Read(std::string_view name, bool& out);
  void Read(std::string_view name, std::string& out);  // any length
  void Read(std::string_view name, double low, double high, std::optional<double>& out);
  void Read(std::string_view name, int64_t low, int64_t high, std::optional<int64_t>& out);  // 5.0 is a whole number

  void Fail(absl::Status status);
  void Wrong(std::string_view name, std::string_view wanted);  // Fail with 400: 'name' must be `wanted`
  const absl::Status& status() const { return status_; }
  std::string PathOf(std::string_view name) const;

 private:
  const base::json::object* object_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace ingot::gateway
