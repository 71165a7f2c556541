// Reads the fields of a JSON object in a request. `status` is the first error, which names the field. A null field
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
  // `json` must outlive this object. If it is not an object, every field is missing. Errors prefix field names with
  // `path`.
  explicit Fields(const base::json::value& json, std::string path = "");

  // Returns nullptr if the field is missing or null.
  const base::json::value* Get(std::string_view name) const;
  // Like Get, but fail if the field is not an object or not a list of at most `max` entries.
  const base::json::object* Object(std::string_view name);
  const base::json::array* List(std::string_view name, size_t max);

  // Each Read leaves `out` unchanged if the field is missing or invalid.
  void Read(std::string_view name, bool& out);
  void Read(std::string_view name, std::string& out);  // any length
  void Read(std::string_view name, double low, double high, std::optional<double>& out);
  // Accepts 5.0 as an integer.
  void Read(std::string_view name, int64_t low, int64_t high, std::optional<int64_t>& out);

  void Fail(absl::Status status);
  void Wrong(std::string_view name, std::string_view wanted);  // fails with 400: 'name' must be `wanted`
  const absl::Status& status() const { return status_; }
  std::string PathOf(std::string_view name) const;

 private:
  const base::json::object* object_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace ingot::gateway
