#include "gateway/prompt/canonical.h"

#include <optional>

#include "base/checksum.h"
#include "base/json.h"
#include "gateway/json_limit.h"
#include "text/output/python_literal.h"

namespace ingot::gateway {
namespace {

// The LiteLLM proxy replaces empty text with this string because the Messages API rejects empty text.
constexpr std::string_view kNothingSaid = "[System: Empty message content sanitised to satisfy protocol]";

// Parses JSON. After an error, the text is compared as is. Integers beyond 64 bits are compared as doubles, because
// JavaScript clients send them back that way.
absl::StatusOr<base::json::value> Parsed(std::string_view text) {
  if (HasTooManyValues(text)) return absl::ResourceExhaustedError("too many values");
  return base::ParseJson(text);
}

// Parses JSON or the equivalent Python literal.
absl::StatusOr<base::json::value> Read(std::string_view arguments) {
  auto json = Parsed(arguments);
  if (json.ok()) return json;
  const std::optional<std::string> translated = text::JsonOfPython(arguments);
  return translated.has_value() ? Parsed(*translated) : std::move(json);
}

// Returns JSON in canonical form. base::CanonicalJson prints it, so a line ending within a string is \r\n.
std::string Canonical(const base::json::value& json) {
  const std::string printed = base::CanonicalJson(json);
  if (printed.find("\\r\\n") == std::string::npos) return printed;
  std::string text;
  for (size_t at = 0; at < printed.size(); ++at) {
    if (std::string_view(printed).substr(at).starts_with("\\r\\n")) at += 2;
    text += printed[at];
    // Copies each escape as a unit because \\r\n does not begin an escape.
    if (printed[at] == '\\') text += printed[++at];
  }
  return text;
}

// Writes the length first, so different field lists never print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

}  // namespace

std::string WithLineFeeds(std::string_view text) {
  std::string lines;
  lines.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\r' || at + 1 == text.size() || text[at + 1] != '\n') lines += text[at];
  }
  return lines;
}

std::string CanonicalArguments(std::string_view arguments) {
  const auto json = Read(arguments);
  if (!json.ok()) return WithLineFeeds(arguments);
  const base::json::value* raw = base::Find(*json, "__unparsedToolInput");
  if (raw == nullptr || !raw->is_string() || json->as_object().size() != 1) return Canonical(*json);
  // Unwraps only one layer because clients do not wrap repeatedly.
  const std::string_view inner(raw->get_string().data(), raw->get_string().size());
  const auto read = Read(inner);
  return read.ok() ? Canonical(*read) : WithLineFeeds(inner);
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string ReasoningKey(std::string_view reasoning) {
  const std::string_view said = Trim(reasoning);
  return said.empty() ? "" : base::ContentKey(WithLineFeeds(said));
}

bool SameReasoning(std::string_view sent, std::string_view key) {
  return TrimmedSize(sent) == 0 || ReasoningKey(sent) == key;
}

base::Key128 MessageKey(const text::Message& message) {
  std::string canonical;
  canonical.reserve(64 + message.content.size());
  Put(canonical, message.role);
  if (message.role == "assistant") {
    const std::string_view said = Trim(message.content);
    Put(canonical, said == kNothingSaid ? "" : WithLineFeeds(said));
  } else {
    Put(canonical, message.content);
  }
  Put(canonical, message.name);
  for (const text::ToolCall& call : message.tool_calls) {
    Put(canonical, call.name);
    Put(canonical, CanonicalArguments(call.arguments_json));
  }
  for (const text::MediaPart& part : message.media) {
    absl::StrAppend(&canonical, "@", part.at, ":");  // unambiguous because a call's name begins with its length
    Put(canonical, part.kind);
    Put(canonical, part.content);
  }
  return base::ContentKey128(canonical);
}

}  // namespace ingot::gateway
