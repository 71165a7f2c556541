#include "gateway/api/constraint_fields.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "gateway/api/api_error.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxStopIds = 1024;

// A field that other servers support but this server does not.
struct UnheldField {
  const char* name;
  const char* instead;
};
constexpr char kNoGrammar[] = "grammars are not supported: send a JSON schema, a regular expression, or choices";
constexpr char kNoTags[] = "structural tags are not supported: send a JSON schema, or tools with tool_choice";
constexpr UnheldField kUnheld[] = {
    {"grammar", kNoGrammar},
    {"guided_grammar", kNoGrammar},
    {"ebnf", kNoGrammar},
    {"structural_tag", kNoTags},
    {"guided_whitespace_pattern", "the whitespace of JSON cannot be configured"},
    {"allowed_token_ids", "sampling cannot be restricted to token ids: use logit_bias"},
    {"bad_words", "sampling cannot exclude words: use logit_bias"},
    {"use_beam_search", "answers are always sampled"},
    {"logits_processors", "clients' code is not run"},
    {"truncate_prompt_tokens", "prompts are never truncated: shorten the prompt"},
    {"prompt_logprobs", "prompts are not scored"},
    {"chat_template", "the model's own template is used"},
};
constexpr UnheldField kUnheldInStructuredOutputs[] = {
    {"grammar", kNoGrammar},
    {"structural_tag", kNoTags},
    {"whitespace_pattern", "the whitespace of JSON cannot be configured"},
    {"disable_any_whitespace", "the whitespace of JSON cannot be configured"},
};
// structured_outputs members that have no effect here. Objects are closed unless the schema opens them.
constexpr const char* kIdle[] = {"disable_fallback", "disable_additional_properties", "backend", "_backend",
                                 "_backend_was_auto"};
constexpr const char* kForms[] = {"json", "regex", "choice", "json_object"};

bool AsksNothing(const value& field) {
  if (field.is_bool()) return !field.get_bool();
  if (field.is_string()) return field.get_string().empty();
  if (field.is_array()) return field.get_array().empty();
  return field.is_object() && field.get_object().empty();
}

template <size_t n>
void RejectUnheld(Fields& owner, const UnheldField (&fields)[n]) {
  for (const UnheldField& field : fields) {
    const value* sent = owner.Get(field.name);
    if (sent == nullptr || AsksNothing(*sent)) continue;
    const std::string path = owner.PathOf(field.name);
    owner.Fail(
        ApiError(400, "unsupported_parameter", path, absl::StrCat("'", path, "' is not supported: ", field.instead)));
  }
}

// Reads a schema, which is either an object or a string.
void ReadSchema(Fields& owner, const char* name, GatewayRequest& request) {
  const value* schema = owner.Get(name);
  if (schema == nullptr || !BeginAnswerConstraint(owner, name, request)) return;
  std::string text = schema->is_string() ? std::string(schema->get_string()) : base::PrintJson(*schema);
  const auto parsed = base::ParseJson(text);
  if (!parsed.ok() || (!parsed->is_object() && !parsed->is_bool())) {
    return owner.Wrong(name, "a JSON schema, as an object or a string");
  }
  request.json_schema = std::move(text);
}

void ReadRegex(Fields& owner, const char* name, GatewayRequest& request) {
  std::string regex;
  owner.Read(name, regex);
  if (owner.Get(name) == nullptr || !BeginAnswerConstraint(owner, name, request)) return;
  request.regex = std::move(regex);
}

void ReadChoice(Fields& owner, const char* name, GatewayRequest& request) {
  const value* choice = owner.Get(name);
  if (choice == nullptr || !BeginAnswerConstraint(owner, name, request)) return;
  const base::json::array* texts = choice->if_array();
  bool good = texts != nullptr && !texts->empty() && texts->size() <= kMaxChoiceTexts;
  for (size_t i = 0; good && i < texts->size(); ++i) {
    good = (*texts)[i].is_string();
    if (good) request.choice_texts.emplace_back((*texts)[i].get_string());
  }
  if (!good) owner.Wrong(name, absl::StrCat("a list of 1 to ", kMaxChoiceTexts, " strings"));
}

template <size_t n>
bool Lists(const char* const (&names)[n], std::string_view name) {
  for (const char* known : names) {
    if (name == known) return true;
  }
  return false;
}

void ReadStructuredOutputs(Fields& body, GatewayRequest& request) {
  const object* outputs = body.Object("structured_outputs");
  if (outputs == nullptr) return;
  Fields fields(*body.Get("structured_outputs"), "structured_outputs");
  RejectUnheld(fields, kUnheldInStructuredOutputs);
  ReadSchema(fields, "json", request);
  ReadRegex(fields, "regex", request);
  ReadChoice(fields, "choice", request);
  bool any_object = false;
  fields.Read("json_object", any_object);
  if (any_object && BeginAnswerConstraint(fields, "json_object", request)) request.json_schema = kAnyObject;
  for (const auto& [key, field] : *outputs) {
    const std::string name(key);
    bool known = Lists(kForms, name) || Lists(kIdle, name) || field.is_null();
    for (const UnheldField& unheld : kUnheldInStructuredOutputs) known = known || name == unheld.name;
    if (!known) fields.Wrong(name, "omitted: this constraint is not supported");
  }
  body.Fail(fields.status());
}

// Reads the vLLM fields for a prompt that ends with the beginning of an answer or within the last message.
void ReadPromptEnd(Fields& body, GatewayRequest& request) {
  bool& begun = request.conversation.ends_begun;
  bool generation_prompt = true;
  body.Read("continue_final_message", begun);
  body.Read("add_generation_prompt", generation_prompt);
  if (begun == !generation_prompt) return;
  body.Fail(begun ? BadRequest("continue_final_message",
                               "'continue_final_message' needs 'add_generation_prompt': false, because the last "
                               "message is the beginning of the answer")
                  : ApiError(400, "unsupported_parameter", "add_generation_prompt",
                             "'add_generation_prompt': false is not supported: every prompt ends with the beginning of "
                             "an answer, or with 'continue_final_message' within one"));
}

void ReadEnd(Fields& body, GatewayRequest& request) {
  std::optional<int64_t> least;
  body.Read("min_tokens", 0, INT32_MAX, least);
  request.min_tokens = static_cast<int32_t>(least.value_or(0));
  body.Read("ignore_eos", request.ignore_eos);
  body.Read("include_stop_str_in_output", request.emits_stop);
  const value* ids = body.Get("stop_token_ids");
  if (ids == nullptr || (ids->is_array() && ids->get_array().empty())) return;
  if (!ReadIds(*ids, request.stop_token_ids) || request.stop_token_ids.size() > kMaxStopIds) {
    body.Wrong("stop_token_ids", absl::StrCat("a list of at most ", kMaxStopIds, " token ids"));
  }
}

}  // namespace

bool BeginAnswerConstraint(Fields& owner, std::string_view name, GatewayRequest& request) {
  const std::string path = owner.PathOf(name);
  if (request.holds_answer()) {
    owner.Fail(BadRequest(path, absl::StrCat("'", path, "' and '", request.format_field,
                                             "' both constrain the answer: send only one of them")));
    return false;
  }
  request.format_field = path;
  return true;
}

void ReadConstraints(Fields& body, GatewayRequest& request) {
  RejectUnheld(body, kUnheld);
  ReadStructuredOutputs(body, request);
  for (const char* name : {"guided_json", "json_schema"}) ReadSchema(body, name, request);
  for (const char* name : {"guided_regex", "regex"}) ReadRegex(body, name, request);
  ReadChoice(body, "guided_choice", request);
  ReadPromptEnd(body, request);
  ReadEnd(body, request);
}

}  // namespace ingot::gateway
