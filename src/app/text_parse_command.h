// `ingot text parse --format NAME`: model output to message.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// What one line of input gives. `format` is the name of an output format, or a file of one row as JSON (ends in
// ".json"; fields in text/output_row.h). NOT_FOUND lists the known names; INVALID_ARGUMENT: the file's row is wrong.
//
// The input is a string, or an object:
//   text     the output: special tokens written out, end-of-turn cut off
//   tools    OpenAI's list; formats that write parameters take their types from it
//   prefill  what of the turn the prompt had written, such as "<think>\n"
//   calls    "whole" (default), "streamed" or "text": what becomes of tool calls that are not right (CallMode)
// The result is OpenAI's assistant message, with "malformed": true where a call was not right. Calls without an id of
// the format's own are call_0, call_1, ... INVALID_ARGUMENT says what is wrong with the input.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextParse(
    const std::string& format);

}  // namespace ingot::app
