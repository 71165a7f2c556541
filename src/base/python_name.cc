#include "base/python_name.h"

namespace ingot::base {

PythonName SplitPythonName(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

absl::Status CheckPythonName(const std::string& key, const std::string& text, const std::string& example) {
  const size_t colon = text.rfind(':');
  const bool has_both = colon != std::string::npos && colon > 0 && colon + 1 < text.size();
  if (has_both && text.find('/', colon) == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is '", text, "': write FILE.py:NAME, such as ", example, ", or PACKAGE.MODULE:NAME"));
}

}  // namespace ingot::base
