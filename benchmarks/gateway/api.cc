#include "gateway/api.h"

namespace ingot::bench {
namespace {

namespace json = base::json;

std::string Quoted(std::string_view text) { return base::PrintJson(json::value(json::string(text))); }

// The member's text; empty where there is none.
std::string_view TextOf(const json::value& value, const char* key) {
  const auto* text = base::Find(value, key);
  return text != nullptr && text->is_string() ? std::string_view(text->get_string()) : std::string_view();
}

// `before` and `after` stand around a tool's name, description and parameters, the last under the key `parameters`.
std::string Tools(const char* before, const char* parameters, const char* after) {
  std::string tools;
  for (const char* name : {"read", "write", "edit", "bash", "grep", "glob", "list", "fetch"}) {
    absl::StrAppend(&tools, tools.empty() ? "[" : ",", before, R"("name":")", name,
                    R"(","description":"Works on the files of the project. Give a path that is relative to its root; )",
                    R"(a line counts from 1. What is too long is cut, and the answer says where.",")", parameters,
                    R"(":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"line":{)",
                    R"("type":"integer","description":"Where to begin."},"pattern":{"type":"string"}},)",
                    R"("required":["path"]}})", after);
  }
  return tools + "]";
}

class Chat : public Api {
 public:
  std::string_view target() const override { return "/v1/chat/completions"; }
  const std::string& head() const override { return head_; }
  std::string_view tail() const override { return "]}"; }

  std::string Opening(const std::string& system, const std::string& task) const override {
    return absl::StrCat(R"({"role":"system","content":")", system, R"("},{"role":"user","content":")", task, R"("})");
  }

  std::string Turn(const Answer& answer, const std::string& result) const override {
    return absl::StrCat(R"(,{"role":"assistant","content":)", Quoted(answer.content), R"(,"tool_calls":[{"id":")",
                        answer.call_id, R"(","type":"function","function":{"name":"read","arguments":)",
                        Quoted(answer.arguments), R"(}}]},{"role":"tool","tool_call_id":")", answer.call_id,
                        R"(","content":")", result, R"("})");
  }

  bool Read(const json::value& event, Answer& answer) const override {
    const auto* choices = base::Find(event, "choices");
    if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return false;
    const auto* delta = base::Find(choices->get_array()[0], "delta");
    if (delta == nullptr) return false;
    answer.content += TextOf(*delta, "content");
    const auto* calls = base::Find(*delta, "tool_calls");
    if (calls == nullptr || !calls->is_array()) return true;
    for (const auto& call : calls->get_array()) {
      if (const auto id = TextOf(call, "id"); !id.empty()) answer.call_id = id;
      if (const auto* function = base::Find(call, "function")) answer.arguments += TextOf(*function, "arguments");
    }
    return true;
  }

 private:
  const std::string head_ =
      absl::StrCat(R"({"model":"bench","stream":true,"temperature":1,"tools":)",
                   Tools(R"({"type":"function","function":{)", "parameters", "}"), R"(,"messages":[)");
};

class Messages : public Api {
 public:
  std::string_view target() const override { return "/v1/messages?beta=true"; }
  const std::string& head() const override { return head_; }
  // A dialogue leaves its last block open.
  std::string_view tail() const override { return R"(,"cache_control":{"type":"ephemeral"}}]}]})"; }

  std::string Opening(const std::string& system, const std::string& task) const override {
    return absl::StrCat(R"("system":[{"type":"text","text":")", system, R"(","cache_control":{"type":"ephemeral"}}],)",
                        R"("messages":[{"role":"user","content":[{"type":"text","text":")", task, "\"");
  }

  std::string Turn(const Answer& answer, const std::string& result) const override {
    return absl::StrCat(R"(}]},{"role":"assistant","content":[)", answer.items,
                        R"(]},{"role":"user","content":[{"type":"tool_result","tool_use_id":")", answer.call_id,
                        R"(","content":")", result, "\"");
  }

  bool Read(const json::value& event, Answer& answer) const override {
    const std::string_view type = TextOf(event, "type");
    if (type == "content_block_start") {
      const auto* block = base::Find(event, "content_block");
      if (block == nullptr) return false;
      answer.type = TextOf(*block, "type");
      answer.text.clear();
      if (answer.type == "tool_use") answer.call_id = TextOf(*block, "id");
    } else if (type == "content_block_delta") {
      const auto* delta = base::Find(event, "delta");
      if (delta == nullptr) return false;
      for (const char* key : {"text", "thinking", "partial_json"}) answer.text += TextOf(*delta, key);
      if (const auto signature = TextOf(*delta, "signature"); !signature.empty()) answer.signature = signature;
    } else if (type == "content_block_stop") {
      absl::StrAppend(&answer.items, answer.items.empty() ? "" : ",", Block(answer));
    }
    return !type.empty();
  }

 private:
  static std::string Block(const Answer& answer) {
    if (answer.type == "thinking") {
      return absl::StrCat(R"({"type":"thinking","thinking":)", Quoted(answer.text), R"(,"signature":)",
                          Quoted(answer.signature), "}");
    }
    if (answer.type == "text") return absl::StrCat(R"({"type":"text","text":)", Quoted(answer.text), "}");
    const auto input = base::ParseJson(answer.text);  // clients write it again in their own way
    return absl::StrCat(R"({"type":"tool_use","id":")", answer.call_id, R"(","name":"read","input":)",
                        input.ok() ? base::PrintJson(*input) : "{}", "}");
  }

  const std::string head_ =
      absl::StrCat(R"({"model":"bench","stream":true,"max_tokens":32000,"thinking":{"type":"enabled",)",
                   R"("budget_tokens":16000},"tools":)", Tools("{", "input_schema", ""), ",");
};

class Responses : public Api {
 public:
  std::string_view target() const override { return "/v1/responses"; }
  const std::string& head() const override { return head_; }
  std::string_view tail() const override { return "]}"; }

  std::string Opening(const std::string& system, const std::string& task) const override {
    return absl::StrCat(R"("instructions":")", system,
                        R"(","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":")", task,
                        R"("}]})");
  }

  std::string Turn(const Answer& answer, const std::string& result) const override {
    return absl::StrCat(",", answer.items, R"(,{"type":"function_call_output","call_id":")", answer.call_id,
                        R"(","output":")", result, R"("})");
  }

  bool Read(const json::value& event, Answer& answer) const override {
    const std::string_view type = TextOf(event, "type");
    if (type == "response.output_item.done") {
      const auto* item = base::Find(event, "item");
      if (item == nullptr) return false;
      absl::StrAppend(&answer.items, answer.items.empty() ? "" : ",", base::PrintJson(*item));
      if (TextOf(*item, "type") == "function_call") answer.call_id = TextOf(*item, "call_id");
    }
    return !type.empty();
  }

 private:
  const std::string head_ = absl::StrCat(
      R"({"model":"bench","stream":true,"store":false,"parallel_tool_calls":false,"include":)",
      R"(["reasoning.encrypted_content"],"tools":)", Tools(R"({"type":"function",)", "parameters", ""), ",");
};

}  // namespace

std::unique_ptr<const Api> MakeApi(std::string_view name) {
  if (name == "chat") return std::make_unique<Chat>();
  if (name == "messages") return std::make_unique<Messages>();
  if (name == "responses") return std::make_unique<Responses>();
  return nullptr;
}

}  // namespace ingot::bench
