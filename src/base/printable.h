// Makes untrusted text safe for terminals, logs, and metric names. Ingot prints text from agents, tasks, clients, and
// other processes only after passing it through these functions.
//
//   control characters                         \n  \t  \r  \x1b  \x7f  \u009b
//   direction marks, invisible characters      \u202e  \u200b  \u2028
//   bytes that are not UTF-8                   \xff
//
// All other text is unchanged, including backslashes. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::base {

struct PrintableOptions {
  size_t max_bytes = SIZE_MAX;  // limit on the result, which never splits a character or escape
  bool ascii = false;           // also escapes every byte above 127
  bool quoted = false;          // also escapes '"' and '\', for text between quotes
};

std::string Printable(std::string_view text, const PrintableOptions& options = {});

// Returns untrusted text for an error message: made printable and limited to kMaxShown bytes. Longer text ends with its
// size: "aaaa.. (70000 bytes)".
inline constexpr size_t kMaxShown = 200;
std::string Shown(std::string_view text);

// Cuts a message that may quote untrusted text to `most` bytes (at least 100). Keeps the beginning and the end, because
// the end usually states what to do. Use it in code that forwards messages from many sources. Does not escape anything.
inline constexpr size_t kMaxMessage = 1000;
std::string CutMessage(std::string_view message, size_t most = kMaxMessage);

// Returns whether Printable would leave `text` unchanged.
bool IsPrintable(std::string_view text);

// Makes multi-line text printable. Lines after the first are indented, so the text cannot imitate a log line.
std::string PrintableLines(std::string_view text);

}  // namespace ingot::base
