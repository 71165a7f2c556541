// `ingot text parse --format NAME`: parses model output into a message.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Makes the function from a line to its result. `format` is the name of an output format, or a file of one row as JSON
// (ends in ".json"; fields in text/output/output_row.h). NOT_FOUND lists the known names; INVALID_ARGUMENT: the file's
// row is wrong.
//
// The input is a string, or an object:
//   text     the output: special tokens written out, end-of-turn cut off
//   tools    OpenAI's list; formats that write parameters take their types from it
//   prefill  the part of the turn that the prompt ended with, such as "<think>\n"
//   calls    "whole" (default), "streamed" or "text": the treatment of malformed tool calls (CallMode)
// The result is OpenAI's assistant message, with "malformed": true if a call was malformed. Calls without an id
// in the format are call_0, call_1, ... INVALID_ARGUMENT says what is wrong with the input.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextParse(
    const std::string& format);

}  // namespace ingot::app
