// The query of a target: KEY=VALUE joined by '&', percent-encoded. Pure. A value that its key does not accept is
// INVALID_ARGUMENT, and the error names the key and the value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::view {

class Query {
 public:
  // The part of `target` after its question mark. The last value of a repeated key counts.
  static Query Of(std::string_view target);
  std::string Text(const std::string& key) const;  // empty = absent
  // nullopt = absent or empty: a form sends an empty field as an empty value.
  absl::StatusOr<std::optional<int64_t>> Integer(const std::string& key) const;
  absl::StatusOr<std::optional<double>> Number(const std::string& key) const;  // finite
  // One of `choices`; empty = absent.
  absl::StatusOr<std::string> OneOf(const std::string& key, const std::vector<std::string>& choices) const;
  // OK: every key is one of `known`.
  absl::Status Only(const std::vector<std::string>& known) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ingot::view
