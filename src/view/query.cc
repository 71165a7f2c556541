#include "view/query.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "view/safe_text.h"

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

absl::Status Malformed(const std::string& key, const std::string& value, const std::string& wanted) {
  constexpr size_t kShown = 64;  // limit in bytes on the value
  return absl::InvalidArgumentError(
      absl::StrCat(SafeText(key), ": '", SafeText(value.substr(0, kShown)), "' is not ", wanted));
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

absl::StatusOr<std::optional<int64_t>> Query::Integer(const std::string& key) const {
  const std::string text = Text(key);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return Malformed(key, text, "a whole number");
  return value;
}

absl::StatusOr<std::optional<double>> Query::Number(const std::string& key) const {
  const std::string text = Text(key);
  if (text.empty()) return std::nullopt;
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return Malformed(key, text, "a number");
  return value;
}

absl::StatusOr<std::string> Query::OneOf(const std::string& key, const std::vector<std::string>& choices) const {
  const std::string text = Text(key);
  if (text.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  return Malformed(key, text, "one of: " + absl::StrJoin(choices, ", "));
}

absl::Status Query::Only(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : values_) {
    if (key.empty() || std::find(known.begin(), known.end(), key) != known.end()) continue;
    return Malformed("query", key, known.empty() ? "accepted: no key is" : "one of: " + absl::StrJoin(known, ", "));
  }
  return absl::OkStatus();
}

}  // namespace ingot::view
