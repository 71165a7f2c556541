// Canonical forms, in which two messages are equal no matter which JSON printer wrote them. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

// `text` with a line feed for each carriage return and line feed: clients on Windows store lines that way.
std::string WithLineFeeds(std::string_view text);

// A tool call's arguments as JSON with sorted keys, and line feeds in its texts (WithLineFeeds). Three spellings have
// the same canonical form:
//   1. JSON with any spacing, order of keys and escapes
//   2. a Python literal of the value, such as {'all': False}, from clients that print a parsed call
//   3. {"__unparsedToolInput": "..."}, the wrapper of clients that could not parse the arguments (Claude Code)
// Any other text is its own canonical form.
std::string CanonicalArguments(std::string_view arguments);

// A text without the white space around it, and its bytes.
std::string_view Trim(std::string_view text);
inline size_t TrimmedSize(std::string_view text) { return Trim(text).size(); }

// Whether the reasoning that a client sent has this key or is empty, because clients drop it. Surrounding white space
// and carriage returns (WithLineFeeds) do not count. The key of no reasoning is empty.
bool SameReasoning(std::string_view sent, std::string_view key);
std::string ReasoningKey(std::string_view reasoning);

// The key of role, text (an assistant's with line feeds and without surrounding white space; empty if a client replaced
// it with a filler), name, the names and canonical arguments of tool calls, and media. Ids and reasoning do not count:
// clients rename ids and drop reasoning (SameReasoning).
base::Key128 MessageKey(const text::Message& message);

}  // namespace ingot::gateway
