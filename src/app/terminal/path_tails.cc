#include "app/terminal/path_tails.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace ingot::app {
namespace {

using Parts = std::vector<std::string>;

Parts PartsOf(const std::string& path) {
  std::error_code error;
  Parts parts;
  for (const auto& part : std::filesystem::absolute(path, error).lexically_normal()) {
    if (!part.empty()) parts.push_back(part.string());  // the component after a trailing slash is empty
  }
  return parts.empty() ? Parts{path} : parts;
}

// Returns whether the last `count` components are equal.
bool EndAlike(const Parts& a, const Parts& b, size_t count) {
  return a.size() >= count && b.size() >= count &&
         std::equal(a.rbegin(), a.rbegin() + static_cast<ptrdiff_t>(count), b.rbegin());
}

std::string Joined(const Parts& parts, size_t last) {
  std::filesystem::path tail;
  for (size_t i = parts.size() - last; i < parts.size(); ++i) tail /= parts[i];
  return tail.string();
}

}  // namespace

std::vector<std::string> PathTails(const std::vector<std::string>& paths) {
  std::vector<Parts> all;
  for (const std::string& path : paths) all.push_back(PartsOf(path));
  std::vector<std::string> tails;
  for (const Parts& parts : all) {
    const auto alike = [&](size_t count) {
      return std::count_if(all.begin(), all.end(), [&](const Parts& one) { return EndAlike(parts, one, count); }) > 1;
    };
    size_t count = 1;
    while (count < parts.size() && alike(count)) ++count;
    tails.push_back(Joined(parts, alike(count) ? 1 : count));
  }
  return tails;
}

}  // namespace ingot::app
