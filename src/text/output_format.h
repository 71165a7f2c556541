// How a model family writes reasoning and tool calls in what it samples, by name: a row of a table each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat.h"

namespace ingot::text {

// Immutable, lives as long as the program.
class OutputFormat {
 public:
  virtual ~OutputFormat() = default;
  virtual const std::string& name() const = 0;
  // Whole output (special tokens written out, end-of-turn cut off) to message. Never fails: what is not as the format
  // says stays in the content, and `malformed` is set.
  virtual ParsedOutput Parse(std::string_view output) const = 0;
  // Length of the longest prefix whose parse (content and reasoning) can no longer change, only grow.
  virtual size_t SettledPrefix(std::string_view output) const = 0;
};

// NOT_FOUND lists the known names.
absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name);
std::vector<std::string> OutputFormatNames();

}  // namespace ingot::text
