// Text from outside, made fit for a terminal, a log, and the names of a record. Everything that an agent, a task, a
// client or another process chose goes through here before it is printed.
//
//   control characters                   \n  \t  \r  \x1b  \x7f  \u009b
//   marks of direction, unseen letters   \u202e  \u200b  \u2028
//   bytes that are no UTF-8              \xff
//
// All other text stays as it is, a backslash too. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::base {

struct PrintableOptions {
  size_t max_bytes = SIZE_MAX;  // of the result, which ends behind a whole character or escape
  bool ascii = false;           // also escapes every byte above 127
  bool quoted = false;          // also escapes '"' and '\', for text between quotes
};

std::string Printable(std::string_view text, const PrintableOptions& options = {});

// Whether Printable leaves `text` as it is.
bool IsPrintable(std::string_view text);

// Printable text of several lines. Each line after the first begins with a margin, so that no text can pass for a line of
// the log's own.
std::string PrintableLines(std::string_view text);

}  // namespace ingot::base
