#include "gateway/api/request_fields.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "base/big_integer.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/api/constraint_fields.h"
#include "gateway/api/role_name.h"
#include "gateway/api/thread_names.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxTools = 4096;
constexpr size_t kMaxBiases = 4096;

void ReadStop(Fields& body, std::string_view name, GatewayRequest& request) {
  const value* stop = body.Get(name);
  if (stop == nullptr) return;
  const auto add = [&](const value& text) {
    if (!text.is_string() || text.get_string().size() > kMaxStopBytes) return false;
    // An empty string does not stop anything.
    if (!text.get_string().empty()) request.stop.emplace_back(text.get_string());
    return true;
  };
  bool good = true;
  if (stop->is_array()) {
    good = stop->get_array().size() <= kMaxStops;
    for (const value& text : stop->get_array()) good = good && add(text);
  } else {
    good = add(*stop);
  }
  if (good) return;
  body.Wrong(name, absl::StrCat("a string or up to ", kMaxStops, " strings of at most ", kMaxStopBytes, " bytes"));
}

void ReadBias(Fields& body, GatewayRequest& request) {
  const object* biases = body.Object("logit_bias");
  if (biases == nullptr) return;
  bool good = biases->size() <= kMaxBiases;
  for (const auto& [key, bias] : *biases) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const double number = bias.is_number() ? bias.to_number<double>() : 1000;
    good = good && error == std::errc() && end == key.data() + key.size() && id >= 0 && number >= -100 && number <= 100;
    if (good) request.logit_bias.emplace_back(id, static_cast<float>(number));
  }
  if (!good) {
    body.Wrong("logit_bias",
               absl::StrCat("an object of at most ", kMaxBiases, " token ids, each with a number in [-100, 100]"));
  }
}

void ReadSampling(Fields& body, GatewayRequest& request) {
  body.Read("temperature", 0, 2, request.temperature);
  body.Read("top_p", 0, 1, request.top_p);
  body.Read("min_p", 0, 1, request.min_p);
  std::optional<int64_t> top_k, seed;
  body.Read("top_k", -1, INT32_MAX, top_k);
  if (top_k.has_value()) request.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));  // in vLLM, -1 means off
  body.Read("seed", INT64_MIN, INT64_MAX, seed);
  if (seed.has_value()) request.seed = static_cast<uint64_t>(*seed);
  body.Read("frequency_penalty", -2, 2, request.frequency_penalty);
  body.Read("presence_penalty", -2, 2, request.presence_penalty);
  body.Read("repetition_penalty", 0.01, 100, request.repetition_penalty);
  ReadBias(body, request);
  for (const char* name : {"stop", "stop_sequences"}) ReadStop(body, name, request);
  std::optional<int64_t> tokens;
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    body.Read(name, 1, INT32_MAX, tokens);
  }
  request.max_tokens = tokens.value_or(0);
}

// Content types and the field that holds each one's text.
constexpr std::pair<std::string_view, std::string_view> kTextParts[] = {
    {"text", "text"},       {"input_text", "text"},   {"output_text", "text"},
    {"refusal", "refusal"}, {"summary_text", "text"}, {"reasoning_text", "text"}};

// Returns the text fields in `part` that are listed in `names`, each followed by an empty line.
std::string Headings(const value& part, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    const value* said = base::Find(part, name);
    if (said != nullptr && said->is_string()) text += std::string(said->get_string()) + "\n\n";
  }
  return text;
}

// Returns the text nested inside an Anthropic part, or nullopt if the part has no text.
absl::StatusOr<std::optional<std::string>> NestedText(const value& part, std::string_view type,
                                                      const std::string& path) {
  if (type == "document") {
    const value* source = base::Find(part, "source");
    const value* kind = source == nullptr ? nullptr : base::Find(*source, "type");
    if (kind == nullptr) return std::nullopt;
    const std::string said = Headings(part, {"title", "context"});
    const value* data = base::Find(*source, "data");
    if (*kind == "text" && data != nullptr && data->is_string()) return said + std::string(data->get_string());
    if (*kind != "content") return std::nullopt;
    INGOT_ASSIGN_OR_RETURN(const std::string text,
                           ContentText(base::Find(*source, "content"), path + ".source.content", "\n"));
    return said + text;
  }
  if (type == "search_result") {
    INGOT_ASSIGN_OR_RETURN(const std::string text, ContentText(base::Find(part, "content"), path + ".content", "\n"));
    return Headings(part, {"title", "source"}) + text;
  }
  const value* tool = type == "tool_reference" ? base::Find(part, "tool_name") : nullptr;
  if (tool == nullptr || !tool->is_string()) return std::nullopt;
  return std::string(tool->get_string());
}

}  // namespace

void ReadArguments(Fields& call, std::string& out) {
  call.Read("arguments", out);
  if (!HasTooManyValues(out)) return;
  call.Wrong("arguments", absl::StrCat("a string with at most ", kMaxBodyValues, " JSON values"));
}

absl::StatusOr<value> ParseBody(std::string_view body) {
  if (HasTooManyValues(body)) {
    return ApiError(413, "body_too_large", "",
                    absl::StrCat("the request's body has more than ", kMaxBodyValues, " JSON values"));
  }
  // The tree is read once and dropped, so it is allocated in one block. The request copies its fields.
  const auto read = [](std::string_view text) {
    return base::ParseJsonExactly(text, base::json::make_shared_resource<base::json::monotonic_resource>(text.size()));
  };
  auto parsed = read(body);
  if (!parsed.ok()) {
    if (const auto repaired = base::WithoutLoneSurrogates(body)) parsed = read(*repaired);
  }
  if (!parsed.ok()) return BadRequest("", absl::StrCat("the request's body is not JSON: ", parsed.status().message()));
  if (!parsed->is_object()) return BadRequest("", "the request's body must be a JSON object");
  return parsed;
}

bool ReadIds(const value& list, std::vector<int32_t>& ids) {
  if (!list.is_array() || list.get_array().empty()) return false;
  for (const value& id : list.get_array()) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) return false;
    ids.push_back(static_cast<int32_t>(id.get_int64()));
  }
  return true;
}

void ReadCommon(const Headers& headers, Fields& body, GatewayRequest& request) {
  body.Read("model", request.model);
  request.model = base::CutText(request.model, kMaxName);
  ReadSampling(body, request);
  ReadConstraints(body, request);
  ReadThread(headers, body, request);
  ReadRole(headers, body, request);
  body.Read("stream", request.stream);
  body.Read("return_token_ids", request.return_token_ids);
  if (const value* list = body.Get("prompt_token_ids")) {
    std::vector<int32_t> ids;
    if (!ReadIds(*list, ids)) body.Wrong("prompt_token_ids", "a list of at least one token id");
    request.prompt_field = "prompt_token_ids";
    request.raw_prompts.push_back({"", std::move(ids)});
  }
  body.Read("parallel_tool_calls", request.parallel_tool_calls);
  std::string effort;
  body.Read("reasoning_effort", effort);
  SetEffort(effort, request);
  if (const object* variables = body.Object("chat_template_kwargs")) {
    for (const auto& [name, set] : *variables) request.conversation.template_variables[name] = set;
    const value* thinking = variables->if_contains("enable_thinking");
    if (thinking != nullptr && thinking->is_bool()) SetThinking(thinking->get_bool(), request);
  }
}

void ReadLogprobs(Fields& body, GatewayRequest& request) {
  body.Read("logprobs", request.logprobs);
  std::optional<int64_t> top;
  body.Read("top_logprobs", 0, kMaxTopLogprobs, top);
  if (top.value_or(0) > 0 && !request.logprobs) {
    body.Fail(BadRequest("top_logprobs", "'top_logprobs' needs 'logprobs': true"));
  }
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

void SetEffort(const std::string& effort, GatewayRequest& request) {
  if (effort.empty()) return;
  SetThinking(effort != "none", request);
  if (effort != "none") request.conversation.template_variables["reasoning_effort"] = base::CutText(effort, kMaxName);
}

void SetThinking(bool on, GatewayRequest& request) {
  request.thinking = on;
  request.conversation.template_variables["enable_thinking"] = on;  // Qwen
  request.conversation.template_variables["thinking"] = on;         // DeepSeek, Kimi
}

std::string FlatName(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  return absl::StrCat(base::View(name_space), name_space.ends_with("__") ? "" : "__", base::View(name));
}

std::string CustomArguments(std::string_view input) {
  return base::PrintJson(object{{"input", base::json::string_view(input.data(), input.size())}});
}

std::string CustomInput(const std::string& arguments_json) {
  const auto arguments = base::ParseJson(arguments_json);
  const value* input = arguments.ok() ? base::Find(*arguments, "input") : nullptr;
  return input != nullptr && input->is_string() ? std::string(input->get_string()) : arguments_json;
}

absl::Status AddTool(ToolDeclaration tool, const std::string& path, GatewayRequest& request) {
  if (tool.name.empty() || tool.name.size() > kMaxName) {
    return BadRequest(path, absl::StrCat("'", path, "' needs a name of 1 to ", kMaxName, " bytes"));
  }
  if (request.tools.size() >= kMaxTools) return BadRequest(path, absl::StrCat("there are over ", kMaxTools, " tools"));
  if (tool.kind == ToolKind::kCustom) {
    if (!tool.parameters.is_null()) {
      absl::StrAppend(&tool.description, "\n\nThe input's format: ", base::PrintJson(tool.parameters));
    }
    tool.parameters = object{{"type", "object"},
                             {"properties", object{{"input", object{{"type", "string"}}}}},
                             {"required", base::json::array{"input"}}};
  }
  Tool known{tool.kind, FlatName(tool.name_space, tool.name), tool.name, tool.name_space, tool.strict};
  object function{{"name", known.name}};
  if (!tool.description.empty()) function["description"] = tool.description;
  if (!tool.parameters.is_null()) function["parameters"] = std::move(tool.parameters);
  request.conversation.tools.push_back(object{{"type", "function"}, {"function", std::move(function)}});
  request.tools.push_back(std::move(known));
  return absl::OkStatus();
}

absl::Status SetToolChoice(std::string_view mode, GatewayRequest& request) {
  if (mode == "auto") {
    request.tool_choice.mode = ToolChoice::Mode::kAuto;
  } else if (mode == "none") {
    request.tool_choice.mode = ToolChoice::Mode::kNone;
  } else if (mode == "required" || mode == "any") {
    if (request.tools.empty())
      return BadRequest("tool_choice", "'tool_choice' requires a call, but there are no tools");
    request.tool_choice.mode = ToolChoice::Mode::kRequired;
  } else {
    return BadRequest(
        "tool_choice",
        "'tool_choice' must be \"auto\", \"none\", or \"required\" (\"any\" in the Messages API), or name a tool");
  }
  return absl::OkStatus();
}

absl::Status RequireTools(std::vector<std::string> names, GatewayRequest& request) {
  if (names.empty()) return BadRequest("tool_choice", "'tool_choice' does not name a tool");
  for (const std::string& name : names) {
    if (request.FindTool(name) != nullptr) continue;
    return BadRequest("tool_choice", absl::StrCat("'tool_choice' names the tool '", base::CutText(name, kMaxName),
                                                  "', which is not among 'tools'"));
  }
  request.tool_choice = {ToolChoice::Mode::kRequired, std::move(names)};
  return absl::OkStatus();
}

void KeepTools(const std::vector<std::string>& names, GatewayRequest& request) {
  std::vector<Tool> kept;
  std::vector<value> declared;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    if (std::find(names.begin(), names.end(), request.tools[i].name) == names.end()) continue;
    kept.push_back(std::move(request.tools[i]));
    declared.push_back(request.conversation.tools[i]);
  }
  request.tools = std::move(kept);
  request.conversation.tools = std::move(declared);
}

void ReadFormat(Fields& owner, std::string_view name, bool strict_unless_said, GatewayRequest& request) {
  const value* format = owner.Get(name);
  if (format == nullptr) return;
  const value* type = base::Find(*format, "type");
  if (type == nullptr || !type->is_string()) return owner.Wrong(name, "an object with a string 'type'");
  const std::string_view kind(type->get_string());
  if (kind == "text" || !BeginAnswerConstraint(owner, name, request)) return;
  const bool any_object = kind == "json_object";
  const value* nested = any_object ? nullptr : base::Find(*format, "json_schema");
  const value& holder = nested == nullptr ? *format : *nested;
  const value* schema = base::Find(holder, "schema");
  if (any_object && schema != nullptr && schema->is_null()) schema = nullptr;
  // In chat completions, a json_schema without a schema allows any JSON.
  const bool usable = schema == nullptr ? any_object || (nested != nullptr && nested->is_object())
                                        : schema->is_object() || schema->is_bool();
  if ((kind != "json_schema" && !any_object) || !usable) {
    return owner.Wrong(name, "of type \"text\", \"json_object\", or \"json_schema\" with an object 'schema'");
  }
  const value* strict = base::Find(holder, "strict");
  const bool held = strict == nullptr || strict->is_null() ? strict_unless_said : *strict == true;
  if (schema == nullptr) {
    request.json_schema = any_object ? kAnyObject : "{}";
  } else {
    request.json_schema = base::PrintJson(held ? *schema : LenientSchema(*schema));
  }
}

value LenientSchema(const value& schema) {
  if (!schema.is_object()) return schema;
  object lenient = schema.get_object();
  lenient["x-lenient"] = true;
  return lenient;
}

absl::StatusOr<std::string> ContentText(const value* content, const std::string& path, std::string_view separator) {
  if (content == nullptr || content->is_null()) return std::string();
  if (content->is_string()) return std::string(content->get_string());
  if (!content->is_array())
    return BadRequest(path, absl::StrCat("'", path, "' must be a string, a list of parts, or null"));
  std::string text;
  for (size_t i = 0; i < content->get_array().size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(const std::string piece, PartText(content->get_array()[i], absl::StrCat(path, "[", i, "]")));
    if (i > 0) text += separator;
    text += piece;
  }
  return text;
}

absl::StatusOr<std::string> PartText(const value& part, const std::string& path) {
  if (part.is_string()) return std::string(part.get_string());
  const value* type = base::Find(part, "type");
  if (type == nullptr || !type->is_string()) {
    return BadRequest(path, absl::StrCat("'", path, "' must be a string or an object with a string 'type'"));
  }
  for (const auto& [name, field] : kTextParts) {
    if (std::string_view(type->get_string()) != name) continue;
    const value* text = base::Find(part, field);
    if (text != nullptr && text->is_string()) return std::string(text->get_string());
    return BadRequest(path, absl::StrCat("'", path, "' needs a string '", base::View(field), "'"));
  }
  INGOT_ASSIGN_OR_RETURN(auto nested, NestedText(part, type->get_string(), path));
  if (nested.has_value()) return *std::move(nested);
  return ApiError(400, "unsupported_content", path,
                  absl::StrCat("'", path, "' has the type '", base::CutText(type->get_string(), 64),
                               "': this model reads only text, not images, audio, or files"));
}

namespace {

// Returns true if the model can continue the last message.
bool MayContinue(const GatewayRequest& request) {
  if (!request.raw_prompts.empty() || request.conversation.messages.empty()) return false;
  const text::Message& last = request.conversation.messages.back();
  const bool says = last.content.find_first_not_of(" \t\r\n") != std::string::npos;
  return last.role == "assistant" && says && last.tool_calls.empty();
}

absl::Status CannotContinue(const GatewayRequest& request) {
  return BadRequest(request.prompt_field,
                    absl::StrCat("the model cannot continue the last message of '", request.prompt_field,
                                 "': it must be an assistant message with text and without tool calls"));
}

absl::Status CheckBegun(const GatewayRequest& request) {
  if (!request.conversation.ends_begun) return absl::OkStatus();
  if (!request.raw_prompts.empty()) {
    return BadRequest(
        "continue_final_message",
        absl::StrCat("'continue_final_message' continues the last message, but '", request.prompt_field,
                     "' is not a conversation: remove it, because the model continues the prompt anyway"));
  }
  return MayContinue(request) ? absl::OkStatus() : CannotContinue(request);
}

}  // namespace

void BeginAnswer(GatewayRequest& request) {
  request.conversation.ends_begun = request.conversation.ends_begun || MayContinue(request);
}

absl::Status CheckEnd(const GatewayRequest& request) {
  if (!request.raw_prompts.empty() || request.conversation.ends_begun) return absl::OkStatus();
  return request.conversation.messages.back().role == "assistant" ? CannotContinue(request) : absl::OkStatus();
}

absl::Status CheckRequest(const GatewayRequest& request) {
  constexpr int32_t kMaxChoices = 128;
  if (static_cast<int64_t>(request.n) * request.prompts() > kMaxChoices) {
    return BadRequest("n", absl::StrCat("'n' times the number of prompts must be at most ", kMaxChoices));
  }
  if (request.raw_prompts.empty() && request.conversation.messages.empty()) {
    return BadRequest(request.prompt_field, "there must be at least one message");
  }
  INGOT_RETURN_IF_ERROR(CheckBegun(request));
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens) {
    return BadRequest("min_tokens", "'min_tokens' must not exceed the maximum number of tokens");
  }
  // Constrained output ends when it is complete.
  const bool constrained = request.holds_answer() || request.tool_choice.mode == ToolChoice::Mode::kRequired;
  const std::pair<const char*, bool> ends[] = {{"min_tokens", request.min_tokens > 0},
                                               {"ignore_eos", request.ignore_eos}};
  for (const auto& [name, set] : ends) {
    if (!set || !constrained) continue;
    const std::string other = request.holds_answer() ? request.format_field : "tool_choice";
    return BadRequest(name,
                      absl::StrCat("'", name, "' and '", other, "' contradict each other: send only one of them"));
  }
  for (const GatewayRequest::RawPrompt& prompt : request.raw_prompts) {
    if (!prompt.ids.empty() || !prompt.text.empty()) continue;
    return BadRequest(request.prompt_field, "a prompt must not be empty");
  }
  return absl::OkStatus();
}

}  // namespace ingot::gateway
