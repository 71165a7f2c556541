// `ingot text parse --format NAME`: parses model output into a message.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Returns a function that processes one line. `format` is the name of an output format, or a ".json" file with one row
// (fields in text/output/output_row.h). Returns NOT_FOUND, with the known names, if the name is unknown, and
// INVALID_ARGUMENT if the row in the file is invalid.
//
// The input is a string or an object:
//   text     the model output, with special tokens as text and without the end-of-turn token
//   tools    the list of tools in OpenAI's format; some formats read the parameter types from it
//   prefill  the start of the turn that was part of the prompt, such as "<think>\n"
//   calls    "whole" (default), "streamed", or "text": how to treat malformed tool calls (CallMode)
// The result is an assistant message in OpenAI's format, with "malformed": true if a call was malformed. If the format
// has no call ids, the ids are call_0, call_1, and so on. Returns INVALID_ARGUMENT, with the reason, if the input is
// invalid.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextParse(
    const std::string& format);

}  // namespace ingot::app
