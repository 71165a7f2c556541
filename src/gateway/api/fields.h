// Reads the fields of one JSON object of a request. The first fault is kept and named by its field; what is read after
// it changes nothing. A field that is null counts as missing.
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
  // `json` outlives this; what is no object has no fields. `path` stands before the names of fields in errors.
  explicit Fields(const base::json::value& json, std::string path = "");

  // nullptr: not there, or null.
  const base::json::value* Get(std::string_view name) const;
  // The same, but a fault unless it is an object, or a list of at most `max` entries.
  const base::json::object* Object(std::string_view name);
  const base::json::array* List(std::string_view name, size_t max);

  void Read(std::string_view name, bool& out);
  void Read(std::string_view name, std::string& out);  // any length
  void Read(std::string_view name, double low, double high, std::optional<double>& out);
  void Read(std::string_view name, int64_t low, int64_t high, std::optional<int64_t>& out);  // 5.0 is a whole number

  void Fail(absl::Status status);
  void Wrong(std::string_view name, std::string_view wanted);  // 400: 'name' must be ...
  const absl::Status& status() const { return status_; }
  std::string PathOf(std::string_view name) const;

 private:
  const base::json::object* object_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace ingot::gateway
