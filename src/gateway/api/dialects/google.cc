// Implements POST /v1beta/models/{model}:generateContent, :streamGenerateContent, and :countTokens in Google's API.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/api/constraint_fields.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/google_schema.h"
#include "gateway/api/dialects/openai_fields.h"
#include "gateway/api/request_fields.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kContents[] = "contents";
constexpr char kBetweenParts[] = "\n";

// Reads the fields of one message. Protobuf JSON accepts two spellings of each name, such as "topP" and "top_p", and a
// list with one entry may be written without brackets.
class ProtoFields {
 public:
  explicit ProtoFields(const value& json, std::string path = "") : fields_(json, std::move(path)) {}

  const value* Get(std::string_view name) const { return fields_.Get(Spelling(name)); }
  std::string PathOf(std::string_view name) const { return fields_.PathOf(Spelling(name)); }
  // Returns nullptr if the field is missing. Fails and returns nullptr if it is not an object.
  const value* Object(std::string_view name) {
    return fields_.Object(Spelling(name)) == nullptr ? nullptr : fields_.Get(Spelling(name));
  }
  template <typename... Arguments>
  void Read(std::string_view name, Arguments&&... arguments) {
    fields_.Read(Spelling(name), std::forward<Arguments>(arguments)...);
  }
  void Wrong(std::string_view name, std::string_view wanted) { fields_.Wrong(Spelling(name), wanted); }
  bool BeginConstraint(std::string_view name, GatewayRequest& request) {
    return BeginAnswerConstraint(fields_, Spelling(name), request);
  }
  void Fail(absl::Status status) { fields_.Fail(std::move(status)); }
  const absl::Status& status() const { return fields_.status(); }

  // Calls `read`(entry, path of the entry) for each entry of a list until a call fails.
  template <typename Read>
  absl::Status Each(std::string_view name, const Read& read) {
    const value* field = Get(name);
    if (field == nullptr) return absl::OkStatus();
    if (field->is_object()) return read(*field, PathOf(name));
    const array* list = fields_.List(Spelling(name), kMaxListed);
    INGOT_RETURN_IF_ERROR(fields_.status());
    for (size_t i = 0; i < list->size(); ++i) {
      INGOT_RETURN_IF_ERROR(read((*list)[i], absl::StrCat(PathOf(name), "[", i, "]")));
    }
    return absl::OkStatus();
  }

 private:
  // Returns "topP", or "top_p" if the message has only that.
  std::string Spelling(std::string_view name) const {
    if (fields_.Get(name) != nullptr) return std::string(name);
    std::string other;
    for (const char c : name) {
      const bool upper = c >= 'A' && c <= 'Z';
      if (upper) other += '_';
      other += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return fields_.Get(other) != nullptr ? other : std::string(name);
  }

  Fields fields_;
};

// ---- Contents -----------------------------------------------------------------------------------------------------

// Returns the id in a signature created by this gateway. Signatures from other servers or clients are meaningless here.
std::string IdInSignature(ProtoFields& part) {
  std::string signature, id;
  part.Read("thoughtSignature", signature);
  if (!absl::WebSafeBase64Unescape(signature, &id) && !absl::Base64Unescape(signature, &id)) return "";
  return CallIdIn(id).empty() ? "" : id;
}

// Returns true if the part has this field. Each part has one of several possible fields.
bool Has(const ProtoFields& part, std::string_view name) { return part.Get(name) != nullptr; }

// Returns true for parts that belong to tools on the vendor's servers. The model here never saw them.
bool IsHosted(const ProtoFields& part) {
  for (const char* name : {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}) {
    if (Has(part, name)) return true;
  }
  return false;
}

// Returns the error for a part that is not text, a call, or a result.
absl::Status WrongPart(const ProtoFields& part, const std::string& path) {
  for (const char* name : {"inlineData", "fileData"}) {
    if (!Has(part, name)) continue;
    ProtoFields data(*part.Get(name));
    std::string type;
    data.Read("mimeType", type);
    return ApiError(400, "unsupported_content", path,
                    absl::StrCat("'", path, "' has the type '", name, "' (", base::Printable(type, {.max_bytes = 64}),
                                 "): this model reads only text, not images, audio, or files"));
  }
  return BadRequest(path, absl::StrCat("'", path, "' needs 'text', 'functionCall', or 'functionResponse'"));
}

// Returns a system instruction's text. The instruction is either a content object or a string.
absl::StatusOr<std::string> SystemText(const value& instruction, const std::string& path) {
  if (instruction.is_string()) return std::string(instruction.get_string());
  ProtoFields content(instruction, path);
  std::string text;
  INGOT_RETURN_IF_ERROR(content.Each("parts", [&](const value& json, const std::string& where) -> absl::Status {
    ProtoFields part(json, where);
    std::string piece;
    part.Read("text", piece);
    INGOT_RETURN_IF_ERROR(part.status());
    if (!Has(part, "text")) return WrongPart(part, where);
    if (!piece.empty()) text += (text.empty() ? "" : "\n\n") + piece;
    return absl::OkStatus();
  }));
  return text;
}

// Returns a result's text: `text` in {"output": text} or {"result": text}, or the whole object as JSON.
std::string ResultText(const object& response) {
  for (const char* name : {"output", "result"}) {
    const value* output = response.size() == 1 ? response.if_contains(name) : nullptr;
    if (output == nullptr) continue;
    return output->is_string() ? std::string(output->get_string()) : text::PythonJson(*output);
  }
  return text::PythonJson(response);
}

// Reads a request's contents. Adjacent contents with the same role form one turn. Each call result is a separate
// message, and so is the text between results.
class Turns {
 public:
  explicit Turns(GatewayRequest& request) : builder_(request) {}

  void AddSystem(std::string text) { Add("system", std::move(text)); }
  absl::Status ReadAll(ProtoFields& owner) {
    INGOT_RETURN_IF_ERROR(owner.Each(
        kContents, [this](const value& content, const std::string& path) { return ReadContent(content, path); }));
    Flush();
    return absl::OkStatus();
  }
  bool any() const { return begun_; }

 private:
  // A call that has no result yet.
  struct OpenCall {
    std::string id, name;
  };

  absl::Status ReadContent(const value& json, const std::string& path) {
    if (!json.is_object()) return BadRequest(path, absl::StrCat("'", path, "' must be an object with 'parts'"));
    ProtoFields content(json, path);
    std::string role = "user";
    content.Read("role", role);
    INGOT_RETURN_IF_ERROR(content.status());
    if (role != "user" && role != "model" && role != "function") {
      return BadRequest(path, absl::StrCat("'", path, ".role' must be \"user\" or \"model\""));
    }
    const value* parts = content.Get("parts");
    if (role != "model" && (parts == nullptr || (parts->is_array() && parts->get_array().empty()))) {
      return BadRequest(path, absl::StrCat("'", path, "' needs at least one of 'parts'"));
    }
    Begin(role == "model");
    return content.Each("parts", [this](const value& part, const std::string& where) -> absl::Status {
      if (!part.is_object()) return BadRequest(where, absl::StrCat("'", where, "' must be an object"));
      ProtoFields fields(part, where);
      if (IsHosted(fields)) return absl::OkStatus();
      return model_ ? ReadModelPart(fields, where) : ReadUserPart(fields, where);
    });
  }
  void Begin(bool model) {
    if (begun_ && model == model_) return;
    Flush();
    begun_ = true;
    model_ = model;
    if (!model) return;
    builder_.BeginTurn();
    open_calls_.clear();
  }
  void Add(const char* role, std::string text) {
    builder_.Add(
        {.role = role, .content = std::move(text), .reasoning = {}, .tool_calls = {}, .tool_call_id = {}, .name = {}});
  }
  void Flush() {
    if (any_text_) Add("user", std::exchange(text_, {}));
    any_text_ = false;
  }

  absl::Status ReadUserPart(ProtoFields& part, const std::string& path) {
    if (const value* result = part.Object("functionResponse"))
      return ReadResult(*result, part.PathOf("functionResponse"));
    std::string text;
    part.Read("text", text);
    INGOT_RETURN_IF_ERROR(part.status());
    if (!Has(part, "text")) return WrongPart(part, path);
    if (any_text_) text_ += kBetweenParts;
    text_ += text;
    any_text_ = true;
    return absl::OkStatus();
  }

  absl::Status ReadResult(const value& json, const std::string& path) {
    ProtoFields result(json, path);
    text::Message message;
    message.role = "tool";
    result.Read("name", message.name);
    result.Read("id", message.tool_call_id);
    const value* response = result.Object("response");
    INGOT_RETURN_IF_ERROR(result.status());
    INGOT_RETURN_IF_ERROR(result.Each(
        "parts", [](const value& part, const std::string& where) { return WrongPart(ProtoFields(part), where); }));
    if (response != nullptr) message.content = ResultText(response->get_object());
    message.tool_call_id = TakeCall(message.tool_call_id, message.name);
    Flush();
    builder_.Add(std::move(message));
    return absl::OkStatus();
  }
  // Returns the id of the call that a result belongs to: the result's own id, or that of the first open call with this
  // name.
  std::string TakeCall(const std::string& id, const std::string& name) {
    for (auto call = open_calls_.begin(); call != open_calls_.end(); ++call) {
      if (id.empty() ? call->name != name : call->id != id) continue;
      std::string found = std::move(call->id);
      open_calls_.erase(call);
      return found;
    }
    return id;
  }

  absl::Status ReadModelPart(ProtoFields& part, const std::string& path) {
    const std::string id = IdInSignature(part);
    bool thought = false;
    std::string text;
    part.Read("thought", thought);
    part.Read("text", text);
    const value* call = part.Object("functionCall");
    INGOT_RETURN_IF_ERROR(part.status());
    if (call != nullptr) return ReadCall(*call, id, part.PathOf("functionCall"));
    if (!Has(part, "text") && !Has(part, "thoughtSignature")) return WrongPart(part, path);
    if (thought) {
      builder_.AddReasoning(text, id);
    } else {
      builder_.AddContent(text, id);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCall(const value& json, const std::string& signed_id, const std::string& path) {
    ProtoFields fields(json, path);
    text::ToolCall call;
    fields.Read("id", call.id);
    fields.Read("name", call.name);
    if (call.name.empty()) fields.Wrong("name", "a nonempty string");
    const value* args = fields.Object("args");
    INGOT_RETURN_IF_ERROR(fields.status());
    call.arguments_json = args == nullptr ? "{}" : text::PythonJson(*args);
    if (call.id.empty()) call.id = signed_id.empty() ? path : signed_id;
    open_calls_.push_back({call.id, call.name});
    builder_.AddCall(std::move(call));
    return absl::OkStatus();
  }

  ConversationBuilder builder_;
  bool begun_ = false;
  bool model_ = false;  // role of the last content
  std::string text_;    // user text that is not in a message yet
  bool any_text_ = false;
  std::deque<OpenCall> open_calls_;  // in the model's last turn
};

// ---- Tools --------------------------------------------------------------------------------------------------------

absl::Status ReadFunction(const value& json, const std::string& path, GatewayRequest& request) {
  if (!json.is_object()) return BadRequest(path, absl::StrCat("'", path, "' must be an object"));
  ProtoFields fields(json, path);
  ToolDeclaration tool;
  fields.Read("name", tool.name);
  fields.Read("description", tool.description);
  const value* parameters = fields.Object("parameters");
  const value* schema = fields.Object("parametersJsonSchema");
  INGOT_RETURN_IF_ERROR(fields.status());
  if (schema != nullptr) {
    tool.parameters = *schema;
  } else if (parameters != nullptr) {
    tool.parameters = JsonSchemaOf(*parameters);
  }
  return AddTool(std::move(tool), path, request);
}

// Tools without declarations, such as googleSearch, run on the vendor's servers and are ignored.
absl::Status ReadTools(ProtoFields& body, GatewayRequest& request) {
  return body.Each("tools", [&request](const value& tool, const std::string& path) -> absl::Status {
    if (!tool.is_object()) return BadRequest(path, absl::StrCat("'", path, "' must be an object"));
    return ProtoFields(tool, path)
        .Each("functionDeclarations", [&request](const value& function, const std::string& where) {
          return ReadFunction(function, where, request);
        });
  });
}

absl::Status ReadToolChoice(ProtoFields& body, GatewayRequest& request) {
  const value* owner = body.Object("toolConfig");
  if (owner == nullptr) return body.status();
  ProtoFields owned(*owner, body.PathOf("toolConfig"));
  const value* json = owned.Object("functionCallingConfig");
  if (json == nullptr) return owned.status();
  ProtoFields config(*json, owned.PathOf("functionCallingConfig"));
  const std::string path = config.PathOf("mode");
  std::string mode = "AUTO";
  std::vector<std::string> names;
  config.Read("mode", mode);
  INGOT_RETURN_IF_ERROR(config.status());
  INGOT_RETURN_IF_ERROR(
      config.Each("allowedFunctionNames", [&](const value& name, const std::string& where) -> absl::Status {
        if (!name.is_string() || request.FindTool(std::string_view(name.get_string())) == nullptr) {
          return BadRequest(where, absl::StrCat("'", where, "' must be the name of a function among 'tools'"));
        }
        names.emplace_back(name.get_string());
        return absl::OkStatus();
      }));
  request.tool_choice_field = body.PathOf("toolConfig");
  if (mode == "NONE") {
    request.tool_choice.mode = ToolChoice::Mode::kNone;
  } else if (mode == "ANY") {
    if (request.tools.empty()) return BadRequest(path, "'" + path + "' requires a call, but there are no functions");
    request.tool_choice = {ToolChoice::Mode::kRequired, std::move(names)};
  } else if (mode == "AUTO" || mode == "VALIDATED" || mode == "MODE_UNSPECIFIED") {
    if (!names.empty()) KeepTools(names, request);
  } else {
    return BadRequest(path, "'" + path + R"(' must be "AUTO", "ANY", "NONE", or "VALIDATED")");
  }
  return absl::OkStatus();
}

// ---- Answer configuration -----------------------------------------------------------------------------------------

void ReadStops(ProtoFields& config, GatewayRequest& request) {
  const absl::Status read =
      config.Each("stopSequences", [&request](const value& stop, const std::string& path) -> absl::Status {
        constexpr size_t kMaxStops = 16, kMaxStopBytes = 1024;
        if (!stop.is_string() || stop.get_string().size() > kMaxStopBytes || request.stop.size() >= kMaxStops) {
          return BadRequest(path, absl::StrCat("'stopSequences' must be up to ", kMaxStops, " strings of at most ",
                                               kMaxStopBytes, " bytes"));
        }
        if (!stop.get_string().empty()) request.stop.emplace_back(stop.get_string());
        return absl::OkStatus();
      });
  config.Fail(read);
}

// Thoughts are sent only if the client requests them.
void ReadThinking(ProtoFields& config, GatewayRequest& request) {
  request.emits_reasoning = false;
  const value* json = config.Object("thinkingConfig");
  if (json == nullptr) return;
  ProtoFields thinking(*json, config.PathOf("thinkingConfig"));
  std::optional<int64_t> budget;
  std::string level;
  thinking.Read("includeThoughts", request.emits_reasoning);
  thinking.Read("thinkingBudget", -1, INT32_MAX, budget);
  thinking.Read("thinkingLevel", level);
  config.Fail(thinking.status());
  if (budget.value_or(-1) >= 0) SetThinking(*budget > 0, request);  // -1 = the template decides
  if (level.empty() || level == "THINKING_LEVEL_UNSPECIFIED") return;
  for (char& c : level) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  SetEffort(level, request);
}

// Constrains the answer to one of the names in an enum.
void ReadNames(const value* schema, ProtoFields& config, GatewayRequest& request) {
  const value* list = schema == nullptr ? nullptr : base::Find(*schema, "enum");
  const array* names = list == nullptr ? nullptr : list->if_array();
  bool good = names != nullptr && !names->empty() && names->size() <= kMaxChoiceTexts;
  for (size_t i = 0; good && i < names->size(); ++i) {
    good = (*names)[i].is_string();
    if (good) request.choice_texts.emplace_back((*names)[i].get_string());
  }
  if (!good) config.Wrong("responseSchema", R"(a schema with an 'enum' of strings if the MIME type is "text/x.enum")");
}

void ReadAnswerFormat(ProtoFields& config, GatewayRequest& request) {
  std::string type = "text/plain";
  config.Read("responseMimeType", type);
  if (type != "text/plain" && type != "application/json" && type != "text/x.enum") {
    config.Wrong("responseMimeType", R"("text/plain", "application/json", or "text/x.enum")");
  }
  const char* field = "responseMimeType";
  for (const char* name : {"responseSchema", "_responseJsonSchema", "responseJsonSchema"}) {
    if (config.Object(name) != nullptr) field = name;
  }
  const value* schema = field == std::string_view("responseMimeType") ? nullptr : config.Get(field);
  if ((schema == nullptr && type == "text/plain") || !config.status().ok()) return;
  if (!config.BeginConstraint(field, request)) return;
  if (type == "text/x.enum") return ReadNames(schema, config, request);
  request.json_schema = "{}";
  if (schema == nullptr) return;
  const bool openapi = field == std::string_view("responseSchema");
  request.json_schema = base::PrintJson(LenientSchema(openapi ? JsonSchemaOf(*schema) : *schema));
}

absl::Status ReadModalities(ProtoFields& config) {
  const auto check = [](const value& modality, const std::string& path) -> absl::Status {
    if (modality == "TEXT" || modality == "MODALITY_UNSPECIFIED") return absl::OkStatus();
    return ApiError(400, "unsupported_content", path,
                    absl::StrCat("'", path, "' must be \"TEXT\": this model writes only text"));
  };
  return config.Each("responseModalities", check);
}

absl::Status ReadGenerationConfig(ProtoFields& body, GatewayRequest& request) {
  const value none = object{};
  const value* json = body.Object("generationConfig");
  INGOT_RETURN_IF_ERROR(body.status());
  ProtoFields config(json == nullptr ? none : *json, body.PathOf("generationConfig"));
  config.Read("temperature", 0, 2, request.temperature);
  config.Read("topP", 0, 1, request.top_p);
  config.Read("presencePenalty", -2, 2, request.presence_penalty);
  config.Read("frequencyPenalty", -2, 2, request.frequency_penalty);
  std::optional<int64_t> top_k, seed, tokens, candidates, top;
  config.Read("topK", 0, INT32_MAX, top_k);
  config.Read("seed", INT64_MIN, INT64_MAX, seed);
  config.Read("maxOutputTokens", 1, INT32_MAX, tokens);
  config.Read("candidateCount", 1, 128, candidates);
  config.Read("responseLogprobs", request.logprobs);
  config.Read("logprobs", 0, kMaxTopLogprobs, top);
  if (top_k.has_value()) request.top_k = static_cast<int32_t>(*top_k);
  if (seed.has_value()) request.seed = static_cast<uint64_t>(*seed);
  if (tokens.has_value()) request.max_tokens = *tokens;
  request.n = static_cast<int32_t>(candidates.value_or(1));
  if (top.value_or(0) > 0 && !request.logprobs) {
    config.Fail(BadRequest(config.PathOf("logprobs"), "'logprobs' needs 'responseLogprobs': true"));
  }
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  ReadStops(config, request);
  ReadThinking(config, request);
  ReadAnswerFormat(config, request);
  INGOT_RETURN_IF_ERROR(config.status());
  return ReadModalities(config);
}

// ---- The dialects -------------------------------------------------------------------------------------------------

class GenerateContent : public Dialect {
 public:
  std::string_view name() const override { return "google.generateContent"; }
  std::string_view path() const override { return "/models/{model}:generateContent"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewGoogleRenderer(std::move(head), std::move(request));
  }
  Error ErrorOf(const absl::Status& status) const override { return GoogleError(status); }
  std::string ModelJson(const ServedModel& model) const override { return GoogleModelJson(model); }
  std::string ModelsJson(std::span<const ServedModel> models) const override { return GoogleModelsJson(models); }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, Read(raw, json, ""));
    INGOT_RETURN_IF_ERROR(CheckEnd(request));
    request.stream = false;
    return request;
  }

 protected:
  // `path` is the path to the object `json` in the body; empty = `json` is the body.
  static absl::StatusOr<GatewayRequest> Read(const RawRequest& raw, const value& json, const std::string& path) {
    GatewayRequest request;
    request.object_arguments = true;
    request.prompt_field = path.empty() ? kContents : "generateContentRequest.contents";
    Fields common(json, path);
    ReadCommon(raw.headers, common, request);
    INGOT_RETURN_IF_ERROR(common.status());
    ProtoFields body(json, path);
    if (!raw.model.empty()) request.model = base::CutText(base::ToUtf8(raw.model), kMaxName);
    constexpr std::string_view kModels = "models/";
    if (request.model.starts_with(kModels)) request.model.erase(0, kModels.size());
    if (body.Get("cachedContent") != nullptr) {
      return ApiError(400, "unsupported_parameter", body.PathOf("cachedContent"),
                      "'cachedContent' is not supported: this server does not store contents, so send all of them");
    }
    INGOT_RETURN_IF_ERROR(ReadGenerationConfig(body, request));
    INGOT_RETURN_IF_ERROR(ReadTools(body, request));
    INGOT_RETURN_IF_ERROR(ReadToolChoice(body, request));
    Turns turns(request);
    if (const value* instruction = body.Get("systemInstruction")) {
      INGOT_ASSIGN_OR_RETURN(std::string text, SystemText(*instruction, body.PathOf("systemInstruction")));
      if (!text.empty()) turns.AddSystem(std::move(text));
    }
    INGOT_RETURN_IF_ERROR(turns.ReadAll(body));
    if (request.raw_prompts.empty() && !turns.any()) {
      return BadRequest(request.prompt_field,
                        absl::StrCat("'", request.prompt_field, "' must have at least one content"));
    }
    BeginAnswer(request);
    INGOT_RETURN_IF_ERROR(CheckRequest(request));
    return request;
  }
};

class StreamGenerateContent final : public GenerateContent {
 public:
  std::string_view name() const override { return "google.streamGenerateContent"; }
  std::string_view path() const override { return "/models/{model}:streamGenerateContent"; }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, GenerateContent::Parse(raw));
    request.stream = true;
    request.streams_array = QueryValue(raw.query, "alt") != "sse" && QueryValue(raw.query, "$alt") != "sse";
    return request;
  }
};

class GoogleCountTokens final : public GenerateContent {
 public:
  std::string_view name() const override { return "google.countTokens"; }
  std::string_view path() const override { return "/models/{model}:countTokens"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead, std::shared_ptr<const GatewayRequest> request) const override {
    return NewCountRenderer(std::move(request), "totalTokens");
  }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    ProtoFields body(json);
    const value* whole = body.Object("generateContentRequest");
    INGOT_RETURN_IF_ERROR(body.status());
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, whole == nullptr
                                                       ? Read(raw, json, "")
                                                       : Read(raw, *whole, body.PathOf("generateContentRequest")));
    request.count_only = true;
    request.stream = false;
    return request;
  }
};

}  // namespace

const Dialect& GenerateContentDialect() {
  static const GenerateContent dialect;
  return dialect;
}

const Dialect& StreamGenerateContentDialect() {
  static const StreamGenerateContent dialect;
  return dialect;
}

const Dialect& GoogleCountTokensDialect() {
  static const GoogleCountTokens dialect;
  return dialect;
}

}  // namespace ingot::gateway
