// What dialects have in common: fields, tools and content that mean the same in all of them. Pure functions.
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

// A body that is a JSON object; 413 if it has too many values. Half a surrogate pair is read as U+FFFD.
absl::StatusOr<base::json::value> ParseBody(std::string_view body);

// A call's arguments as a string of JSON; 400 if it has too many values.
void ReadArguments(Fields& call, std::string& out);

// model, sampling, limits, stop strings, seed, penalties, logit_bias, stream, token ids in and out, thread and template
// variables, under every name any dialect has for them: max_tokens = max_completion_tokens = max_output_tokens (the
// last of these that is there), stop = stop_sequences, metadata.branch, reasoning_effort, chat_template_kwargs.
void ReadCommon(const Headers& headers, Fields& body, GatewayRequest& request);

// A list of token ids, at least one; false: it is none.
bool ReadIds(const base::json::value& list, std::vector<int32_t>& ids);

// Thinking, as a level ("none" leaves it out) or as a switch: becomes the template variables that models know.
void SetEffort(const std::string& effort, GatewayRequest& request);
void SetThinking(bool on, GatewayRequest& request);

// One tool. `kind` kCustom: `parameters` is replaced by one string, "input", and `parameters` (its format, may be null)
// joins the description. 400 if the name is empty, too long or taken.
struct ToolDeclaration {
  ToolKind kind = ToolKind::kFunction;
  std::string name, name_space, description;
  base::json::value parameters;  // JSON schema; null: none
  bool strict = false;
};
absl::Status AddTool(ToolDeclaration tool, const std::string& path, GatewayRequest& request);
// The name the model knows a tool of a namespace by.
std::string FlatName(std::string_view name_space, std::string_view name);
// The arguments of a function call that stand for a custom tool's text, and back.
std::string CustomArguments(std::string_view input);
std::string CustomInput(const std::string& arguments_json);

// "auto", "none", "required" or "any"; 400 for others.
absl::Status SetToolChoice(std::string_view mode, GatewayRequest& request);
// Only these, by the names the model knows them by. 400 for a name that is not among the tools, or for no name.
absl::Status RequireTools(std::vector<std::string> names, GatewayRequest& request);

// The answer must be JSON: {"type":"text"|"json_object"|"json_schema", ...} with the schema in `schema`, or, in chat
// completions, in json_schema.schema. `strict_unless_said`: its dialect holds answers to all of a schema, and refuses
// what it cannot hold them to, also where `strict` does not say so.
void ReadFormat(Fields& owner, std::string_view name, bool strict_unless_said, GatewayRequest& request);
// A schema that nobody called strict: to be held to as far as can be (grammar/grammar.h, x-lenient).
base::json::value LenientSchema(const base::json::value& schema);

// The text of content that is a string, null or a list of parts, whose texts are joined by `separator`. A part that is
// not text gives a 400 that names its type: images and files are not supported.
absl::StatusOr<std::string> ContentText(const base::json::value* content, const std::string& path,
                                        std::string_view separator);

// The same of one part.
absl::StatusOr<std::string> PartText(const base::json::value& part, const std::string& path);

// Every dialect's last step. 400 for what cannot stand together.
absl::Status CheckRequest(const GatewayRequest& request);

}  // namespace ingot::gateway
