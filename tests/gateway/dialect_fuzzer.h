// A fuzzer of one dialect: any body is answered, or rejected with an error in the dialect's words. An ordinary test
// runs it over edited bodies; libFuzzer runs it if clang builds it (INGOT_FUZZ).
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/api/dialect.h"
#include "gateway/fakes.h"

namespace ingot::gateway {

// Per dialect a body that has about every field it knows.
inline const std::pair<const char*, const char*> kFullBodies[] = {
    {"chat.completions",
     R"({"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"a"}]},
  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
  {"id":"c2","type":"custom","custom":{"name":"g","input":"x"}}]},{"role":"tool","tool_call_id":"c1","content":null},
  {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}],
  "tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"custom","custom":{"name":"g"}}],
  "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},
  "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"n":2,"stop":["x","y"],
  "logprobs":true,"top_logprobs":2,"logit_bias":{"7":1.5},"stream_options":{"include_usage":true},"stream":true,
  "reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false},"metadata":{"branch":"sub"},"unknown":[{}]})"},
    {"completions",
     R"({"model":"m","prompt":["a",[98,99]],"n":2,"logprobs":3,"stop":"x","seed":5,"max_tokens":7,"best_of":2,"stream":true,
  "return_token_ids":true,"structured_outputs":{"choice":["a","b"],"regex":null},"stop_token_ids":[5],"ignore_eos":false,
  "include_stop_str_in_output":true})"},
    {"messages",
     R"({"model":"m","max_tokens":64,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[
  {"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"EqQ="},
  {"type":"redacted_thinking","data":"x"},{"type":"compaction","content":"c"},{"type":"server_tool_use","id":"s"},
  {"type":"text","text":"a"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"}],"is_error":true},
  {"type":"text","text":"go on"},{"type":"document","title":"d","source":{"type":"content","content":[{"type":"text","text":"x"}]}},
  {"type":"search_result","title":"t","source":"s","content":[{"type":"text","text":"y"}]}]},{"role":"user","content":"more"}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},
  {"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
  "thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["x"],"output_config":{"effort":"low"},"stream":true})"},
    {"messages.count_tokens",
     R"({"model":"m","system":"s","messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"tools":[]})"},
    {"responses",
     R"({"model":"m","instructions":"i","input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":
  [{"type":"input_text","text":"q"}]},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],
  "encrypted_content":"ingot1.rs_1.aG0="},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
  {"type":"function_call","call_id":"c1","name":"read","namespace":"ns","arguments":"{}"},{"type":"custom_tool_call",
  "call_id":"c2","name":"g","input":"x"},{"type":"local_shell_call","call_id":"c3","action":{"type":"exec","command":["ls"]}},
  {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"r"}]},{"type":"web_search_call"},
  {"type":"shell_call","call_id":"c4","action":{"commands":["ls"],"timeout_ms":null}},{"type":"apply_patch_call","call_id":"c5",
  "operation":{"type":"delete_file","path":"p"}},{"type":"shell_call_output","call_id":"c4","output":[{"stdout":"o","stderr":"e",
  "outcome":{"type":"exit","exit_code":1}}]},{"type":"apply_patch_call_output","call_id":"c5","status":"failed","output":"no"}],
  "tools":[{"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"read"}]},{"type":"custom","name":"g","format":
  {"type":"text"}},{"type":"local_shell"}],"tool_choice":"auto","text":{"format":{"type":"json_object"}},"reasoning":
  {"effort":"low","summary":"auto"},"include":["reasoning.encrypted_content"],"max_output_tokens":64,"stream":true})"},
    {"responses.input_tokens",
     R"({"model":"m","instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"q"}]}],"tools":[]})"},
    {"google.generateContent",
     R"({"model":"models/m","systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"q"},
  {"text":"r"}]},{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"c2ln"},{"text":"a"},
  {"executableCode":{"language":"PYTHON","code":"1"}},{"functionCall":{"id":"c1","name":"f","args":{"a":1}},
  "thoughtSignature":"c2ln"},{"functionCall":{"name":"g"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1",
  "name":"f","response":{"output":"x"}}},{"functionResponse":{"name":"g","response":{"error":{"code":1}}}},{"text":"go on"}]},
  {"parts":{"text":"more"}}],"tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT",
  "properties":{"a":{"type":"INTEGER","nullable":true},"b":{"type":"ARRAY","items":{"type":"STRING"},"maxItems":"2"}},
  "propertyOrdering":["b","a"]}},{"name":"g","parametersJsonSchema":{"type":"object"}}]},{"googleSearch":{}}],
  "toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["f"]}},"safetySettings":[{}],
  "generationConfig":{"temperature":0.5,"topP":0.9,"topK":40.0,"candidateCount":2,"maxOutputTokens":64,"stopSequences":["x"],
  "seed":7,"presencePenalty":0.1,"frequencyPenalty":0.1,"responseLogprobs":true,"logprobs":2,"responseMimeType":
  "application/json","responseSchema":{"type":"OBJECT"},"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128,
  "thinkingLevel":"LOW"},"responseModalities":["TEXT"]}})"},
    {"google.streamGenerateContent",
     R"({"system_instruction":{"parts":{"text":"s"}},"contents":{"role":"user","parts":[{"text":"q"}]},"generation_config":
  {"max_output_tokens":64,"thinking_config":{"include_thoughts":true}},"tools":[{"function_declarations":[{"name":"f",
  "parameters":{"type":"OBJECT","any_of":[{"type":"OBJECT"}]}}]}],"tool_config":{"function_calling_config":{"mode":"ANY",
  "allowed_function_names":["f"]}},"return_token_ids":true})"},
    {"google.countTokens",
     R"({"generateContentRequest":{"model":"models/m","contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model",
  "parts":[]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}})"}};

// The dialect's field with the prompt.
inline std::string PromptField(std::string_view dialect) {
  if (dialect.starts_with("google")) return "contents";
  return dialect == "completions" ? "prompt" : dialect.starts_with("responses") ? "input" : "messages";
}

// The field that an error names, without nested fields; empty = none.
inline std::string FieldAtFault(const absl::Status& status) {
  const auto error = base::ParseJson(ErrorJson(status)).value();
  const auto& param = error.at("error").at("param");
  if (!param.is_string()) return "";
  const std::string path(param.get_string());
  return path.substr(0, path.find_first_of(".["));
}

// A few edits of a body: of bytes, of its structure, of a value.
inline std::string MutateBody(const std::string& full, std::mt19937& random) {
  std::string body = full;
  for (int edits = 1 + random() % 3; edits > 0; --edits) {
    const size_t at = random() % body.size();
    switch (random() % 5) {
      case 0:
        body[at] = static_cast<char>(random());
        break;
      case 1:
        body.erase(at, 1 + random() % 20);
        break;
      case 2:
        body.insert(at, full.substr(random() % full.size(), random() % 30));
        break;
      case 3: {  // one JSON value for another
        static const char* const kValues[] = {"null", "true", "-1",    "1e99",        "\"x\"",
                                              "[]",   "{}",   "[[1]]", "{\"type\":5}"};
        const size_t colon = body.find(':', at);
        if (colon == std::string::npos) break;
        const size_t end = std::min(body.find_first_of(",}]", colon), body.size());
        body.replace(colon + 1, end - colon - 1, kValues[random() % std::size(kValues)]);
        break;
      }
      default:
        body[at] = "0{}[]\",:-nt"[random() % 11];
    }
    if (body.empty()) body = "x";
  }
  return body;
}

class DialectFuzzer {
 public:
  explicit DialectFuzzer(std::string dialect)
      : dialect_(std::move(dialect)), world_([](const auto&) {
          Script script;
          script.text = "<think>\nhm</think>ok<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
          return script;
        }) {
    world_.with_admission = world_.with_pool = false;
    world_.engine->inline_chunks = true;
    world_.options.max_open_episodes = 8;
    world_.options.max_calls_per_episode = 16;
  }

  // Asks twice in one session, so that the second request meets the first one's history. Returns the fault; empty:
  // nothing. Events that are not JSON, and all that a sanitizer sees, end the program.
  std::string Try(const std::string& body) {
    const std::string key = "key" + std::to_string(tried_++ / 4);
    for (int i = 0; i < 2; ++i) {
      const auto outcome = world_.Ask(dialect_, key, body);
      world_.engine->Forget();
      if (outcome.status.ok()) {
        ++answered_;
        continue;
      }
      ++rejected_;
      const Dialect::Error error = FindDialect(dialect_)->ErrorOf(outcome.status);
      if (error.http != 400) return "not a 400: " + outcome.status.ToString();
      const std::string field = FieldAtFault(outcome.status);
      const auto sent = base::ParseJson(body);
      const bool is_sent = sent.ok() && base::Find(*sent, field) != nullptr;
      if (!field.empty() && !is_sent && field != PromptField(dialect_)) {
        return "names a field that was not sent: " + outcome.status.ToString();
      }
      const auto json = base::ParseJson(error.body);
      if (!json.ok()) return "an error that is not JSON: " + error.body;
      const auto* fault = base::Find(*json, "error");
      const auto* message = fault == nullptr ? nullptr : base::Find(*fault, "message");
      const bool google = dialect_.starts_with("google");
      const auto* type = fault == nullptr ? nullptr : base::Find(*fault, google ? "status" : "type");
      if (message == nullptr || !message->is_string() || message->get_string().empty())
        return "no message: " + error.body;
      if (type == nullptr || *type != (google ? "INVALID_ARGUMENT" : "invalid_request_error")) {
        return "another type: " + error.body;
      }
    }
    return "";
  }
  int answered() const { return answered_; }
  int rejected() const { return rejected_; }

 private:
  const std::string dialect_;
  World world_;
  int64_t tried_ = 0;
  int answered_ = 0, rejected_ = 0;
};

}  // namespace ingot::gateway
