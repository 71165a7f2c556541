// Makes text from outside safe for a terminal, a log, and the names of a record. All text that an agent, a task, a
// client or another process chose goes through here before Ingot prints it.
//
//   control characters                   \n  \t  \r  \x1b  \x7f  \u009b
//   marks of direction, unseen letters   \u202e  \u200b  \u2028
//   bytes that are not UTF-8             \xff
//
// All other text stays as it is, including a backslash. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::base {

struct PrintableOptions {
  size_t max_bytes = SIZE_MAX;  // of the result, which ends after a whole character or escape
  bool ascii = false;           // also escapes every byte above 127
  bool quoted = false;          // also escapes '"' and '\', for text between quotes
};

std::string Printable(std::string_view text, const PrintableOptions& options = {});

// Text from outside, for an error message: Printable, with at most kMostShown bytes of it. A longer text ends with its
// size: "aaaa.. (70000 bytes)".
inline constexpr size_t kMostShown = 200;
std::string Shown(std::string_view text);

// A whole message that may quote text from outside: at most `most` bytes, 100 or more. A longer one keeps its beginning
// and its end, which says what to do. For the places that many messages pass; it escapes nothing.
inline constexpr size_t kMostMessage = 1000;
std::string CutMessage(std::string_view message, size_t most = kMostMessage);

// Whether Printable leaves `text` as it is.
bool IsPrintable(std::string_view text);

// Printable text of several lines. Each line after the first begins with a margin, so no text can look like a real line
// of the log.
std::string PrintableLines(std::string_view text);

}  // namespace ingot::base
