#include "gateway/canonical.h"

#include <optional>

#include "base/checksum.h"
#include "base/json.h"

namespace ingot::gateway {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Length first, so that no two lists of fields print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// One quoted Python string that begins at `at`, as a JSON string; moves `at` past it. Escapes that JSON does not share
// with Python are none that a printed dictionary holds, but for \' and \xHH.
bool StringToJson(std::string_view text, size_t& at, std::string& out) {
  const char quote = text[at++];
  out += '"';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == quote) {
      out += '"';
      ++at;
      return true;
    }
    if (c == '"') {
      out += "\\\"";
    } else if (c != '\\') {
      out += c;
    } else if (++at == text.size()) {
      return false;
    } else if (text[at] == '\'') {
      out += '\'';
    } else if (text[at] == 'x') {
      absl::StrAppend(&out, "\\u00", base::View(text.substr(at + 1, 2)));
      at += 2;
    } else {
      absl::StrAppend(&out, "\\", base::View(text.substr(at, 1)));
    }
  }
  return false;
}

// A Python literal as JSON text; whether that is well-formed is for the JSON parser to say.
std::optional<std::string> PythonToJson(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\'' || text[at] == '"') {
      if (!StringToJson(text, at, out)) return std::nullopt;
      continue;
    }
    size_t end = at;
    while (end < text.size() && IsWord(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (word == "True" || word == "False" || word == "None") {
      out += word == "True" ? "true" : word == "False" ? "false" : "null";
    } else if (!word.empty()) {
      out += word;
    } else {
      out += text[end++];
    }
    at = end;
  }
  return out;
}

}  // namespace

std::string CanonicalArguments(std::string_view arguments) {
  auto json = base::ParseJson(arguments);
  if (!json.ok()) {
    const std::optional<std::string> translated = PythonToJson(arguments);
    if (translated.has_value()) json = base::ParseJson(*translated);
  }
  if (!json.ok()) return std::string(arguments);
  const base::json::value* raw = base::Find(*json, "__unparsedToolInput");
  if (raw != nullptr && raw->is_string() && json->as_object().size() == 1) {
    // Only one layer: what a client could not parse is not one of its own wrappings.
    const std::string_view inner(raw->get_string().data(), raw->get_string().size());
    const auto parsed = base::ParseJson(inner);
    return parsed.ok() ? base::CanonicalJson(*parsed) : std::string(inner);
  }
  return base::CanonicalJson(*json);
}

std::string MessageKey(const text::Message& message) {
  std::string canonical;
  Put(canonical, message.role);
  Put(canonical, message.role == "assistant" ? Trim(message.content) : std::string_view(message.content));
  Put(canonical, message.name);
  for (const text::ToolCall& call : message.tool_calls) {
    Put(canonical, call.name);
    Put(canonical, CanonicalArguments(call.arguments_json));
  }
  return base::ContentKey(canonical);
}

}  // namespace ingot::gateway
