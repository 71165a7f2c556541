#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace ingot::base {
namespace {

void PrintDouble(double number, std::string& out) {
  if (!std::isfinite(number)) {  // not JSON; the only honest spelling left
    out += "null";
    return;
  }
  char buffer[32];
  // The shortest digits that read back equal; an exponent only where Python writes one too.
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), number,
                                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string_view text(buffer, result.ptr - buffer);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void Print(const json::value& value, bool sort_keys, std::string& out) {
  if (value.is_object()) {
    std::vector<const json::key_value_pair*> fields;
    for (const auto& field : value.get_object()) fields.push_back(&field);
    if (sort_keys) {
      std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) { return a->key() < b->key(); });
    }
    out += '{';
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) out += ',';
      out += json::serialize(json::string_view(fields[i]->key()));
      out += ':';
      Print(fields[i]->value(), sort_keys, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const json::value& item : value.get_array()) {
      if (!first) out += ',';
      first = false;
      Print(item, sort_keys, out);
    }
    out += ']';
  } else if (value.is_double()) {
    PrintDouble(value.get_double(), out);
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

absl::StatusOr<json::value> ParseJson(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 100;
  json::stream_parser parser({}, options);
  size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (!error) {
    const size_t rest = text.find_first_not_of(" \t\r\n", used);
    if (rest == std::string_view::npos) return parser.release();
    used = rest;
    error = json::make_error_code(json::error::extra_data);
  }
  const std::string_view before = text.substr(0, used);
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t last_newline = before.rfind('\n');
  const size_t column = last_newline == std::string_view::npos ? used + 1 : used - last_newline;
  return absl::InvalidArgumentError(
      absl::StrCat("malformed JSON at line ", line, ", column ", column, ": ", error.message()));
}

std::string PrintJson(const json::value& value) {
  std::string out;
  Print(value, false, out);
  return out;
}

std::string CanonicalJson(const json::value& value) {
  std::string out;
  Print(value, true, out);
  return out;
}

const json::value* Find(const json::value& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(json::string_view(key.data(), key.size())) : nullptr;
}

}  // namespace ingot::base
