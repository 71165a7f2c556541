#include "base/json_text.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"

namespace ingot::base {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t SkipSpace(std::string_view text, size_t at) { return std::min(text.find_first_not_of(kSpace, at), text.size()); }

// Returns the index after the string that begins at `at`, or the end of the text if the string is unterminated.
size_t SkipString(std::string_view text, size_t at) {
  // Most strings are short, and searching for the quote costs more than checking a few bytes.
  constexpr size_t kShort = 16;
  const size_t short_end = std::min(++at + kShort, text.size());
  for (; at < short_end; ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  for (size_t quote = text.find('"', at); quote != std::string_view::npos; quote = text.find('"', at)) {
    size_t backslashes = 0;
    while (quote - backslashes > at && text[quote - backslashes - 1] == '\\') ++backslashes;
    at = quote + 1;
    if (backslashes % 2 == 0) return at;
  }
  return text.size();
}

// Returns the index after the value that begins at `at`. REQUIRES: the value is well formed.
size_t SkipValue(std::string_view text, size_t at) {
  int depth = 0;
  do {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    const bool bracket = c == '{' || c == '[' || c == '}' || c == ']';
    at = depth > 0 || bracket ? at + 1 : std::min(text.find_first_of(",]} \t\r\n", at), text.size());
  } while (depth > 0);
  return at;
}

std::string Unquoted(std::string_view text) {
  const auto value = ParseJson(text);
  return value.ok() && value->is_string() ? std::string(value->get_string()) : std::string();
}

// Calls visit(key text, value text) for each entry in an object or array. An array's keys are empty.
template <typename Visit>
void ForEach(std::string_view text, const Visit& visit) {
  const bool object = text.front() == '{';
  if (!object && text.front() != '[') return;
  size_t at = SkipSpace(text, 1);
  while (text[at] != '}' && text[at] != ']') {
    std::string_view key;
    if (object) {
      const size_t end = SkipString(text, at);
      key = text.substr(at, end - at);
      at = SkipSpace(text, SkipSpace(text, end) + 1);  // the colon
    }
    const size_t end = SkipValue(text, at);
    visit(key, text.substr(at, end - at));
    at = SkipSpace(text, end);
    if (text[at] == ',') at = SkipSpace(text, at + 1);
  }
}

// Returns the UTF-16 unit escaped at `at` in `text` ("\uXXXX"), or -1 if there is none.
int32_t EscapedUnit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int32_t unit = 0;
  const auto [end, error] = std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return error == std::errc() && end == text.data() + at + 6 ? unit : -1;
}

bool IsFirstHalf(int32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsSecondHalf(int32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

}  // namespace

size_t CountJsonValues(std::string_view text) {
  size_t values = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    ++at;
    if (c == ',') {
      ++values;
    } else if (c == '[' || c == '{') {
      const size_t next = SkipSpace(text, at);
      if (next < text.size() && text[next] != ']' && text[next] != '}') ++values;
    }
  }
  return values;
}

std::optional<std::string> WithoutLoneSurrogates(std::string_view text) {
  std::optional<std::string> repaired;
  for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at)) {
    const int32_t unit = EscapedUnit(text, at);
    if (unit < 0) {
      at += 2;  // skips the backslash and the escaped byte
      continue;
    }
    if (IsFirstHalf(unit) && IsSecondHalf(EscapedUnit(text, at + 6))) {
      at += 12;
      continue;
    }
    if (IsFirstHalf(unit) || IsSecondHalf(unit)) {
      if (!repaired.has_value()) repaired.emplace(text);
      repaired->replace(at, 6, "\\ufffd");
    }
    at += 6;
  }
  return repaired;
}

JsonText::JsonText(std::string_view text) {
  const size_t begin = SkipSpace(text, 0);
  text_ = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string JsonText::string() const { return Unquoted(text_); }

std::vector<JsonText> JsonText::items() const {
  std::vector<JsonText> items;
  if (!is_array()) return items;
  ForEach(text_, [&](std::string_view, std::string_view value) { items.emplace_back(value); });
  return items;
}

std::vector<std::pair<std::string, JsonText>> JsonText::fields() const {
  std::vector<std::pair<std::string, JsonText>> fields;
  if (!is_object()) return fields;
  ForEach(text_, [&](std::string_view quoted, std::string_view value) {
    std::string key = Unquoted(quoted);
    const auto twice =
        std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == key; });
    if (twice == fields.end()) {
      fields.emplace_back(std::move(key), value);
    } else {
      twice->second = JsonText(value);
    }
  });
  return fields;
}

std::optional<JsonText> JsonText::At(std::string_view path) const {
  JsonText at = *this;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    std::optional<JsonText> next;
    if (at.is_array()) {
      size_t index = 0;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
      const std::vector<JsonText> items = at.items();
      if (whole && index < items.size()) next = items[index];
    } else {
      for (const auto& [name, value] : at.fields()) {
        if (name == key) next = value;
      }
    }
    if (!next.has_value() || dot == std::string_view::npos) return next;
    at = *next;
    path.remove_prefix(dot + 1);
  }
}

std::string JsonText::Compact() const {
  std::string out;
  for (size_t at = 0; at < text_.size();) {
    if (text_[at] == '"') {
      const size_t end = SkipString(text_, at);
      out += PrintJson(json::value(json::string(Unquoted(text_.substr(at, end - at)))));
      at = end;
    } else if (kSpace.find(text_[at]) != std::string_view::npos) {
      ++at;
    } else {
      out += text_[at++];
    }
  }
  return out;
}

}  // namespace ingot::base
