#include "view/query.h"

#include <algorithm>

#include "absl/strings/numbers.h"

namespace ingot::view {
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && Digit(text[i + 1]) >= 0 && Digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(Digit(text[i + 1]) * 16 + Digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

Query Query::Of(std::string_view target) {
  Query query;
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return query;
  std::string_view rest = target.substr(question + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    query.values_[Decoded(pair.substr(0, equals))] = Decoded(pair.substr(std::min(equals + 1, pair.size())));
  }
  return query;
}

std::string Query::Text(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second;
}

std::optional<int64_t> Query::Integer(const std::string& key) const {
  int64_t value = 0;
  return absl::SimpleAtoi(Text(key), &value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Query::Number(const std::string& key) const {
  double value = 0;
  return absl::SimpleAtod(Text(key), &value) ? std::optional(value) : std::nullopt;
}

}  // namespace ingot::view
