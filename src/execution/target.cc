#include "execution/target.h"

#include <algorithm>

#include "absl/strings/str_split.h"

namespace ingot::execution {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// A '+' in a query is a space.
std::string DecodeQuery(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return PercentDecode(text);
}

}  // namespace

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    decoded += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
    if (low >= 0) i += 2;
  }
  return decoded;
}

Target ParseTarget(std::string_view target) {
  const size_t mark = target.find('?');
  Target parsed{std::string(target.substr(0, mark)), {}};
  if (mark == std::string_view::npos) return parsed;
  const std::string query(target.substr(mark + 1));
  const std::vector<std::string> parts = absl::StrSplit(query, '&', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    parsed.query[DecodeQuery(part.substr(0, equals))] =
        equals == std::string::npos ? "" : DecodeQuery(part.substr(equals + 1));
  }
  return parsed;
}

}  // namespace ingot::execution
