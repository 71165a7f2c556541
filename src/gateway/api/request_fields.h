// Reads the fields, tools, and content that have the same meaning in all dialects. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "gateway/api/fields.h"
#include "gateway/api/request.h"
#include "gateway/json_limit.h"

namespace ingot::gateway {

inline constexpr size_t kMaxName = 256;  // limit in bytes for model, tool, and thread names

// Parses a body, which must be a JSON object. Fails with 413 if it contains too many values. Unpaired surrogates become
// U+FFFD.
absl::StatusOr<base::json::value> ParseBody(std::string_view body);

// Reads a call's `arguments`, a JSON string. Fails with 400 if it contains too many values.
void ReadArguments(Fields& call, std::string& out);

// Reads the model, sampling parameters, limits, stop strings, seed, penalties, logit_bias, constraints
// (constraint_fields.h), stream, input and output token ids, thread, role, and template variables. Accepts the names
// from all dialects: max_tokens = max_completion_tokens = max_output_tokens (the last one present wins), stop =
// stop_sequences, metadata.branch, metadata.ingot_role, reasoning_effort, chat_template_kwargs.
void ReadCommon(const Headers& headers, Fields& body, GatewayRequest& request);

// Reads a list of token ids. Returns false if it is empty or not a list of ids.
bool ReadIds(const base::json::value& list, std::vector<int32_t>& ids);

// Reads logprobs (a boolean) and top_logprobs.
inline constexpr int kMaxTopLogprobs = 20;
void ReadLogprobs(Fields& body, GatewayRequest& request);

// Set the template variables that control thinking, whose names differ between models. Effort "none" turns it off.
void SetEffort(const std::string& effort, GatewayRequest& request);
void SetThinking(bool on, GatewayRequest& request);

// Adds a tool. Fails with 400 if its name is empty or too long, or if there are too many tools. For kCustom,
// `parameters` is the input format and is appended to the description. The model sees a schema with one string,
// "input".
struct ToolDeclaration {
  ToolKind kind = ToolKind::kFunction;
  std::string name, name_space, description;
  base::json::value parameters;  // JSON Schema; null = none
  bool strict = false;
};
absl::Status AddTool(ToolDeclaration tool, const std::string& path, GatewayRequest& request);
// Returns the model's name for a tool in a namespace.
std::string FlatName(std::string_view name_space, std::string_view name);
// Convert a custom tool's input to function call arguments and back.
std::string CustomArguments(std::string_view input);
std::string CustomInput(const std::string& arguments_json);

// Accepts "auto", "none", "required", and "any". Fails with 400 for other modes.
absl::Status SetToolChoice(std::string_view mode, GatewayRequest& request);
// Requires a call to one of these tools, given by the names that the model sees. Fails with 400 if there are no names
// or if a name is not a declared tool.
absl::Status RequireTools(std::vector<std::string> names, GatewayRequest& request);

// Removes all other tools. If no call is required, this is the only way to restrict the tools.
void KeepTools(const std::vector<std::string>& names, GatewayRequest& request);

// Reads the answer format: {"type":"text"|"json_object"|"json_schema", ...}. The schema is in `schema` or, in chat
// completions, in json_schema.schema. `strict_unless_said` is the default for the `strict` field. As in llama.cpp, a
// json_object may have a schema.
void ReadFormat(Fields& owner, std::string_view name, bool strict_unless_said, GatewayRequest& request);
// A schema that accepts any JSON object.
inline constexpr char kAnyObject[] = R"({"type":"object"})";
// Returns a non-strict copy of the schema. Sampling follows it where possible (grammar/grammar.h, x-lenient).
base::json::value LenientSchema(const base::json::value& schema);

// Returns the text in `content`, which is a string, null, or a list of parts. `separator` is inserted between parts.
// Images and files are not supported, so any part that is not text causes a 400 error that names its type.
absl::StatusOr<std::string> ContentText(const base::json::value* content, const std::string& path,
                                        std::string_view separator);

// Returns one part's text.
absl::StatusOr<std::string> PartText(const base::json::value& part, const std::string& path);

// Messages and Google: if a conversation ends with assistant text, the model continues that text. CheckEnd fails with
// 400 if the conversation ends with any other assistant turn, because nothing can be sampled after it.
void BeginAnswer(GatewayRequest& request);
absl::Status CheckEnd(const GatewayRequest& request);

// The last step in every dialect. Fails with 400 if fields conflict.
absl::Status CheckRequest(const GatewayRequest& request);

}  // namespace ingot::gateway
