// A request's target, taken apart.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::execution {

struct Target {
  std::string path;                          // as the client wrote it
  std::map<std::string, std::string> query;  // decoded
};

Target ParseTarget(std::string_view target);

// Decodes %XX; a '+' stays.
std::string PercentDecode(std::string_view text);

}  // namespace ingot::execution
