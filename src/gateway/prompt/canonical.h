// Canonical forms of what clients send back: equal if, and only if, they say the same as what was delivered, however
// the client wrote it down. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "text/chat.h"

namespace ingot::gateway {

// A tool call's arguments: JSON with sorted keys, whether they came as JSON (any spacing, order of keys, escapes), as a
// Python literal of the same value ({'all': False}, from clients that print a parsed call), or wrapped by a client that
// could not parse them ({"__unparsedToolInput": "..."}, Claude Code). Anything else is its own canonical form.
std::string CanonicalArguments(std::string_view arguments);

// Bytes of an assistant's text without the white space around it, which does not count.
size_t TrimmedSize(std::string_view text);

// Whether what a client sent as an assistant's reasoning is the reasoning of that key: the same but for white space
// around it, or nothing at all, for clients drop it. The key of no reasoning is empty.
bool SameReasoning(std::string_view sent, std::string_view key);
std::string ReasoningKey(std::string_view reasoning);

// Key of a message: role, text (an assistant's without white space around it), tool names and canonical arguments.
// Neither ids nor reasoning count: clients rename the one and drop the other (SameReasoning).
base::Key128 MessageKey(const text::Message& message);

}  // namespace ingot::gateway
