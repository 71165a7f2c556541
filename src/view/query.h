// The query of a target: KEY=VALUE joined by '&', percent-encoded. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::view {

class Query {
 public:
  // The part of `target` behind its question mark. Of a repeated key the last value counts.
  static Query Of(std::string_view target);
  std::string Text(const std::string& key) const;  // empty = absent
  std::optional<int64_t> Integer(const std::string& key) const;
  std::optional<double> Number(const std::string& key) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ingot::view
