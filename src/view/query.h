// Parses a target's query string: percent-encoded KEY=VALUE pairs joined by '&'. Returns INVALID_ARGUMENT, with the key
// and the value, if a value is invalid. Pure.
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
  // Parses the part of `target` after the question mark. If a key is repeated, the last value wins.
  static Query Of(std::string_view target);
  std::string Text(const std::string& key) const;  // empty = absent
  // Returns nullopt if the key is absent or empty, because a form sends an empty field as an empty value.
  absl::StatusOr<std::optional<int64_t>> Integer(const std::string& key) const;
  absl::StatusOr<std::optional<double>> Number(const std::string& key) const;  // must be finite
  // Returns one of `choices`, or "" if the key is absent.
  absl::StatusOr<std::string> OneOf(const std::string& key, const std::vector<std::string>& choices) const;
  // Returns OK if all keys are in `known`.
  absl::Status Only(const std::vector<std::string>& known) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ingot::view
