// Parses request targets.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::execution {

struct Target {
  std::string path;                          // not decoded
  std::map<std::string, std::string> query;  // decoded
};

Target ParseTarget(std::string_view target);

// Decodes %XX and leaves '+' unchanged.
std::string PercentDecode(std::string_view text);

}  // namespace ingot::execution
