#include "gateway/chat_request.h"

#include <cmath>
#include <utility>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/cut_text.h"

namespace ingot::gateway {
namespace {

using base::json::value;

constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int kMaxTopLogprobs = 20;
constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxName = 256;

// A field that is there and not null.
const value* Field(const value& body, std::string_view name) {
  const value* field = base::Find(body, name);
  return field == nullptr || field->is_null() ? nullptr : field;
}

absl::Status WrongType(std::string_view name, std::string_view wanted) {
  return BadRequest(name, absl::StrCat("'", base::View(name), "' must be ", base::View(wanted)));
}

absl::Status ReadBool(const value& body, std::string_view name, bool& out) {
  const value* field = Field(body, name);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_bool()) return WrongType(name, "true or false");
  out = field->get_bool();
  return absl::OkStatus();
}

absl::Status ReadNumber(const value& body, std::string_view name, double low, double high, std::optional<double>& out) {
  const value* field = Field(body, name);
  if (field == nullptr) return absl::OkStatus();
  const double number = field->is_number() ? field->to_number<double>() : std::nan("");
  if (!(number >= low && number <= high)) return WrongType(name, absl::StrCat("a number in [", low, ", ", high, "]"));
  out = number;
  return absl::OkStatus();
}

absl::Status ReadInteger(const value& body, std::string_view name, int64_t low, int64_t high,
                         std::optional<int64_t>& out) {
  const value* field = Field(body, name);
  if (field == nullptr) return absl::OkStatus();
  boost::system::error_code error;
  const int64_t number = field->is_number() ? field->to_number<int64_t>(error) : 0;  // 5.0 is an integer, 5.5 is not
  if (!field->is_number() || error || number < low || number > high) {
    return WrongType(name, absl::StrCat("a whole number in [", low, ", ", high, "]"));
  }
  out = number;
  return absl::OkStatus();
}

absl::Status ReadStop(const value& body, ChatRequest& request) {
  const value* stop = Field(body, "stop");
  if (stop == nullptr) return absl::OkStatus();
  const auto add = [&](const value& text) {
    if (!text.is_string() || text.get_string().empty() || text.get_string().size() > kMaxStopBytes) return false;
    request.stop.emplace_back(text.get_string());
    return true;
  };
  bool good = true;
  if (stop->is_array()) {
    good = stop->get_array().size() <= kMaxStops;
    for (const value& text : stop->get_array()) good = good && add(text);
  } else {
    good = add(*stop);
  }
  return good ? absl::OkStatus()
              : WrongType("stop", absl::StrCat("a string or up to ", kMaxStops, " strings, none of them empty or over ",
                                               kMaxStopBytes, " bytes"));
}

absl::Status ReadLimits(const value& body, ChatRequest& request) {
  std::optional<int64_t> tokens;
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "max_tokens", 1, INT32_MAX, tokens));
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "max_completion_tokens", 1, INT32_MAX, tokens));
  request.max_tokens = tokens.value_or(0);
  std::optional<int64_t> n;
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "n", 1, 128, n));
  if (n.value_or(1) != 1) return BadRequest("n", "'n' must be 1: send one request per choice");
  return absl::OkStatus();
}

absl::Status ReadSampling(const value& body, ChatRequest& request) {
  INGOT_RETURN_IF_ERROR(ReadNumber(body, "temperature", 0, 2, request.temperature));
  INGOT_RETURN_IF_ERROR(ReadNumber(body, "top_p", 0, 1, request.top_p));
  INGOT_RETURN_IF_ERROR(ReadNumber(body, "min_p", 0, 1, request.min_p));
  std::optional<int64_t> top_k, seed;
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "top_k", -1, INT32_MAX, top_k));
  if (top_k.has_value()) request.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));  // -1 is vLLM's "off"
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "seed", INT64_MIN, INT64_MAX, seed));
  if (seed.has_value()) request.seed = static_cast<uint64_t>(*seed);
  for (const char* name : {"frequency_penalty", "presence_penalty"}) {
    std::optional<double> penalty;
    INGOT_RETURN_IF_ERROR(ReadNumber(body, name, -2, 2, penalty));
    request.penalty = request.penalty || penalty.value_or(0) != 0;
  }
  const value* bias = Field(body, "logit_bias");
  if (bias != nullptr && !bias->is_object()) return WrongType("logit_bias", "an object");
  request.penalty = request.penalty || (bias != nullptr && !bias->get_object().empty());
  return absl::OkStatus();
}

absl::Status ReadOutputOptions(const value& body, ChatRequest& request) {
  INGOT_RETURN_IF_ERROR(ReadBool(body, "stream", request.stream));
  INGOT_RETURN_IF_ERROR(ReadBool(body, "return_token_ids", request.return_token_ids));
  INGOT_RETURN_IF_ERROR(ReadBool(body, "logprobs", request.logprobs));
  std::optional<int64_t> top;
  INGOT_RETURN_IF_ERROR(ReadInteger(body, "top_logprobs", 0, kMaxTopLogprobs, top));
  if (top.value_or(0) > 0 && !request.logprobs)
    return BadRequest("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (const value* options = Field(body, "stream_options")) {
    if (!options->is_object()) return WrongType("stream_options", "an object");
    INGOT_RETURN_IF_ERROR(ReadBool(*options, "include_usage", request.include_usage));
  }
  if (const value* format = Field(body, "response_format")) {
    const value* type = base::Find(*format, "type");
    if (type == nullptr || !type->is_string()) return WrongType("response_format", "an object with a 'type'");
    if (type->get_string() != "text") {
      return BadRequest("response_format",
                        "'response_format' must be {\"type\":\"text\"}: constrained output is not supported");
    }
  }
  if (const value* metadata = Field(body, "metadata")) {
    if (!metadata->is_object()) return WrongType("metadata", "an object");
    const value* branch = base::Find(*metadata, "branch");
    if (branch != nullptr && branch->is_string()) request.branch = CutText(branch->get_string(), kMaxName);
  }
  return absl::OkStatus();
}

const value* ToolName(const value& tool) {
  const value* function = base::Find(tool, "function");
  const value* name = function == nullptr ? nullptr : base::Find(*function, "name");
  return name != nullptr && name->is_string() && !name->get_string().empty() ? name : nullptr;
}

absl::Status ReadTools(const value& body, ChatRequest& request) {
  const value* tools = Field(body, "tools");
  if (tools != nullptr) {
    if (!tools->is_array() || tools->get_array().size() > kMaxTools) {
      return WrongType("tools", absl::StrCat("a list of at most ", kMaxTools, " tools"));
    }
    for (size_t i = 0; i < tools->get_array().size(); ++i) {
      if (ToolName(tools->get_array()[i]) == nullptr) {
        return BadRequest(absl::StrCat("tools[", i, "]"),
                          absl::StrCat("tools[", i, "] must be {\"type\":\"function\",\"function\":{\"name\":...}}"));
      }
    }
  }
  const value* choice = Field(body, "tool_choice");
  if (choice == nullptr) return absl::OkStatus();
  if (choice->is_string()) {
    const std::string text(choice->get_string());
    if (text == "auto") return absl::OkStatus();
    if (text == "none" || text == "required") {
      request.tool_choice = text == "none" ? ToolChoice::kNone : ToolChoice::kRequired;
      return absl::OkStatus();
    }
  } else if (const value* name = ToolName(*choice)) {
    for (const value& tool : tools == nullptr ? base::json::array() : tools->get_array()) {
      if (*ToolName(tool) == *name) {
        request.tool_choice = ToolChoice::kRequired;
        return absl::OkStatus();
      }
    }
    return BadRequest("tool_choice", absl::StrCat("'tool_choice' names the function '", std::string(name->get_string()),
                                                  "', which is not among 'tools'"));
  }
  return WrongType("tool_choice",
                   "\"auto\", \"none\", \"required\" or {\"type\":\"function\",\"function\":{\"name\":...}}");
}

// OpenAI's newer and older names of roles, as chat templates know them.
void MapRoles(base::json::array& messages) {
  for (value& message : messages) {
    if (!message.is_object()) continue;
    value* role = message.get_object().if_contains("role");
    if (role == nullptr || !role->is_string()) continue;
    if (role->get_string() == "developer") *role = "system";
    if (role->get_string() == "function") *role = "tool";
  }
}

absl::Status ReadConversation(value& body, ChatRequest& request) {
  value* messages = body.get_object().if_contains("messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
    return WrongType("messages", "a list of at least one message");
  }
  MapRoles(messages->get_array());
  base::json::object wanted;
  wanted["messages"] = std::move(*messages);
  if (value* tools = body.get_object().if_contains("tools"); tools != nullptr && tools->is_array()) {
    wanted["tools"] = std::move(*tools);
  }
  auto conversation = text::ConversationFromJson(wanted);
  if (!conversation.ok()) return BadRequest("messages", std::string(conversation.status().message()));
  request.conversation = *std::move(conversation);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatRequest> ParseChatCompletions(std::string_view text) {
  auto parsed = base::ParseJson(text);
  if (!parsed.ok()) return BadRequest("", absl::StrCat("the request's body is not JSON: ", parsed.status().message()));
  value& body = *parsed;
  if (!body.is_object()) return BadRequest("", "the request's body must be a JSON object");
  ChatRequest request;
  if (const value* model = Field(body, "model")) {
    if (!model->is_string()) return WrongType("model", "a string");
    request.model = CutText(model->get_string(), kMaxName);
  }
  INGOT_RETURN_IF_ERROR(ReadLimits(body, request));
  INGOT_RETURN_IF_ERROR(ReadSampling(body, request));
  INGOT_RETURN_IF_ERROR(ReadStop(body, request));
  INGOT_RETURN_IF_ERROR(ReadOutputOptions(body, request));
  INGOT_RETURN_IF_ERROR(ReadTools(body, request));
  INGOT_RETURN_IF_ERROR(ReadConversation(body, request));
  return request;
}

}  // namespace ingot::gateway
