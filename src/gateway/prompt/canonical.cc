#include "gateway/prompt/canonical.h"

#include <optional>

#include "base/checksum.h"
#include "base/json.h"
#include "gateway/json_limit.h"
#include "text/python_literal.h"

namespace ingot::gateway {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// An error means that the text is compared as it is written.
absl::StatusOr<base::json::value> Parsed(std::string_view text) {
  if (HasTooManyValues(text)) return absl::ResourceExhaustedError("too many values");
  return base::ParseJson(text);
}

// The length comes first, so that no two lists of fields print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

}  // namespace

std::string CanonicalArguments(std::string_view arguments) {
  auto json = Parsed(arguments);
  if (!json.ok()) {
    const std::optional<std::string> translated = text::JsonOfPython(arguments);
    if (translated.has_value()) json = Parsed(*translated);
  }
  if (!json.ok()) return std::string(arguments);
  const base::json::value* raw = base::Find(*json, "__unparsedToolInput");
  if (raw != nullptr && raw->is_string() && json->as_object().size() == 1) {
    // One layer only: no client wraps its own wrapping.
    const std::string_view inner(raw->get_string().data(), raw->get_string().size());
    const auto parsed = Parsed(inner);
    return parsed.ok() ? base::CanonicalJson(*parsed) : std::string(inner);
  }
  return base::CanonicalJson(*json);
}

size_t TrimmedSize(std::string_view text) { return Trim(text).size(); }

std::string ReasoningKey(std::string_view reasoning) {
  const std::string_view said = Trim(reasoning);
  return said.empty() ? "" : base::ContentKey(said);
}

bool SameReasoning(std::string_view sent, std::string_view key) {
  return TrimmedSize(sent) == 0 || ReasoningKey(sent) == key;
}

base::Key128 MessageKey(const text::Message& message) {
  std::string canonical;
  canonical.reserve(64 + message.content.size());
  Put(canonical, message.role);
  Put(canonical, message.role == "assistant" ? Trim(message.content) : std::string_view(message.content));
  Put(canonical, message.name);
  for (const text::ToolCall& call : message.tool_calls) {
    Put(canonical, call.name);
    Put(canonical, CanonicalArguments(call.arguments_json));
  }
  return base::ContentKey128(canonical);
}

}  // namespace ingot::gateway
