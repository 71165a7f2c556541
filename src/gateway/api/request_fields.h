// Reads the fields, tools and content that mean the same in all dialects. Pure functions.
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

inline constexpr size_t kMaxName = 256;  // bytes of the names of models, tools and threads

// Parses a body, which must be a JSON object; 413 if it has too many values. Half a surrogate pair is read as U+FFFD.
absl::StatusOr<base::json::value> ParseBody(std::string_view body);

// Reads a call's `arguments`, a string of JSON; 400 if it has too many values.
void ReadArguments(Fields& call, std::string& out);

// Reads model, sampling, limits, stop strings, seed, penalties, logit_bias, constraints (constraint_fields.h), stream,
// token ids in and out, thread, role and template variables, under the names of all dialects: max_tokens =
// max_completion_tokens = max_output_tokens (the last present wins), stop = stop_sequences, metadata.branch,
// metadata.ingot_role, reasoning_effort, chat_template_kwargs.
void ReadCommon(const Headers& headers, Fields& body, GatewayRequest& request);

// Reads a list of token ids; false: it is not such a list, or empty.
bool ReadIds(const base::json::value& list, std::vector<int32_t>& ids);

// Reads logprobs (true or false) and top_logprobs.
inline constexpr int kMaxTopLogprobs = 20;
void ReadLogprobs(Fields& body, GatewayRequest& request);

// Sets the template variables for thinking, which each model names differently. Effort "none" switches thinking off.
void SetEffort(const std::string& effort, GatewayRequest& request);
void SetThinking(bool on, GatewayRequest& request);

// Adds one tool; 400 if its name is empty or too long, or there are too many tools. For kCustom, `parameters` is the
// format of its text, which joins the description; the model's schema is one string, "input".
struct ToolDeclaration {
  ToolKind kind = ToolKind::kFunction;
  std::string name, name_space, description;
  base::json::value parameters;  // JSON schema; null = none
  bool strict = false;
};
absl::Status AddTool(ToolDeclaration tool, const std::string& path, GatewayRequest& request);
// The model's name for a tool of a namespace.
std::string FlatName(std::string_view name_space, std::string_view name);
// A custom tool's text as the arguments of a function call, and back.
std::string CustomArguments(std::string_view input);
std::string CustomInput(const std::string& arguments_json);

// "auto", "none", "required" or "any"; 400 for others.
absl::Status SetToolChoice(std::string_view mode, GatewayRequest& request);
// Requires a call of one of these tools, by the model's names. 400: a name is not among the tools, or there are no
// names.
absl::Status RequireTools(std::vector<std::string> names, GatewayRequest& request);

// Leaves out the other tools. This is the only way to restrict the tools of a model that need not call any.
void KeepTools(const std::vector<std::string>& names, GatewayRequest& request);

// Reads the answer's format: {"type":"text"|"json_object"|"json_schema", ...} with the schema in `schema` or, in chat
// completions, in json_schema.schema. `strict_unless_said`: without a field `strict` the schema is strict. A
// json_object may have a schema, too, as llama.cpp's.
void ReadFormat(Fields& owner, std::string_view name, bool strict_unless_said, GatewayRequest& request);
// The schema of a JSON object.
inline constexpr char kAnyObject[] = R"({"type":"object"})";
// A schema that is not strict: sampling is constrained to it as far as possible (grammar/grammar.h, x-lenient).
base::json::value LenientSchema(const base::json::value& schema);

// The text of content: a string, null or a list of parts, whose texts are joined by `separator`. 400 names the type of
// a part that is not text: images and files are not supported.
absl::StatusOr<std::string> ContentText(const base::json::value* content, const std::string& path,
                                        std::string_view separator);

// The text of one part.
absl::StatusOr<std::string> PartText(const base::json::value& part, const std::string& path);

// Messages and Google: the model continues an assistant's text at the end of the conversation. CheckEnd: 400 if the
// conversation ends with any other turn of the assistant, after which nothing can be sampled.
void BeginAnswer(GatewayRequest& request);
absl::Status CheckEnd(const GatewayRequest& request);

// The last step of every dialect; 400 if fields contradict each other.
absl::Status CheckRequest(const GatewayRequest& request);

}  // namespace ingot::gateway
