// Converts messages to canonical forms, which do not depend on the JSON printer that wrote them. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

// Returns `text` with CR LF replaced by LF, because Windows clients store lines with CR LF.
std::string WithLineFeeds(std::string_view text);

// Returns a tool call's arguments as JSON with sorted keys and with LF line endings in its strings (WithLineFeeds).
// These spellings have the same canonical form:
// 1. JSON with any spacing, key order, and escapes
// 2. the value as a Python literal, such as {'all': False}, from clients that print a parsed call
// 3. {"__unparsedToolInput": "..."}, the wrapper that clients use for arguments that they could not parse (Claude Code)
//
// Any other text is its own canonical form.
std::string CanonicalArguments(std::string_view arguments);

// Trim removes surrounding whitespace. TrimmedSize returns the size of the result in bytes.
std::string_view Trim(std::string_view text);
inline size_t TrimmedSize(std::string_view text) { return Trim(text).size(); }

// Returns true if the reasoning that a client sent has this key or is empty, because clients drop reasoning.
// Surrounding whitespace and carriage returns (WithLineFeeds) are ignored. The key for empty reasoning is empty.
bool SameReasoning(std::string_view sent, std::string_view key);
std::string ReasoningKey(std::string_view reasoning);

// Returns a key for the message's role, text, name, tool calls (names and canonical arguments), and media. For
// assistant text, the key uses LF line endings and ignores surrounding whitespace. If a client replaced the text with a
// placeholder, the key uses "". The key excludes ids and reasoning because clients rename ids and drop reasoning
// (SameReasoning).
base::Key128 MessageKey(const text::Message& message);

}  // namespace ingot::gateway
