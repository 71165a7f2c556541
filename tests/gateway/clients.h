// Clients of each dialect: how they ask, and how they keep an answer in the history that they send back.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>

#include "gateway/fakes.h"

namespace ingot::gateway {

// REQUIRES of `keep`: the outcome is whole, or a stream that was read to its end.
struct Client {
  const char* dialect;
  base::json::object (*body)(const base::json::array& history);
  // Appends the answer, and results of its calls. Returns whether there were calls.
  bool (*keep)(const World::Outcome& answer, base::json::array& history);
  const char* stream_dialect = nullptr;  // the dialect that streams; null = a field of the body asks for a stream
};
inline void PrintTo(const Client& client, std::ostream* out) { *out << client.dialect; }

// A test's name of a client.
inline std::string NameOf(const Client& client) {
  std::string name = client.dialect;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// ---- chat.completions ---------------------------------------------------------------------------------------------

inline base::json::object ChatBody(const base::json::array& history) {
  base::json::object body = Body(history);
  body["tools"] = CalculatorTools();
  return body;
}

// The message of a stream of chat chunks, as a client keeps it.
inline base::json::object CollectChat(const World::Outcome& outcome) {
  base::json::object message{{"role", "assistant"}, {"content", ""}};
  for (const base::json::value& event : outcome.events) {
    const base::json::object& delta = event.at("choices").at(0).at("delta").as_object();
    for (const char* name : {"content", "reasoning_content"}) {
      if (!delta.contains(name) || delta.at(name).is_null()) continue;
      const std::string before = message.contains(name) ? std::string(message[name].as_string()) : "";
      message[name] = before + std::string(delta.at(name).as_string());
    }
    if (!delta.contains("tool_calls")) continue;
    const base::json::value& piece = delta.at("tool_calls").at(0);
    if (base::Find(piece, "id") != nullptr) {
      if (!message.contains("tool_calls")) message["tool_calls"] = base::json::array{};
      message["tool_calls"].as_array().push_back(
          base::json::object{{"id", piece.at("id")}, {"type", piece.at("type")}, {"function", piece.at("function")}});
    } else {
      const auto& more = piece.at("function").at("arguments").as_string();
      auto& calls = message["tool_calls"].as_array();
      calls.back().at("function").at("arguments").as_string().append(more.begin(), more.end());
    }
  }
  return message;
}

inline bool KeepChat(const World::Outcome& answer, base::json::array& history) {
  const bool whole = base::Find(answer.events.at(0).at("choices").at(0), "message") != nullptr;
  const base::json::value message = whole ? answer.message() : base::json::value(CollectChat(answer));
  history.push_back(message);
  const base::json::value* calls = base::Find(message, "tool_calls");
  if (calls == nullptr || calls->is_null()) return false;
  for (const base::json::value& call : calls->as_array()) {
    base::json::object result = Msg("tool", "3");
    result["tool_call_id"] = call.at("id");
    history.push_back(result);
  }
  return true;
}

// ---- messages -----------------------------------------------------------------------------------------------------

inline base::json::object MessagesBody(const base::json::array& history) {
  const base::json::object function = CalculatorTools()[0].at("function").as_object();
  base::json::object body = Body(history);
  body["max_tokens"] = 100;
  body["thinking"] = base::json::object{{"type", "enabled"}, {"budget_tokens", 50}};
  body["tools"] = base::json::array{base::json::object{{"name", "add"}, {"input_schema", function.at("parameters")}}};
  return body;
}

// The content blocks of a stream, as a client keeps them.
inline base::json::array CollectMessages(const World::Outcome& outcome) {
  base::json::array content;
  std::string input;
  for (const base::json::value& event : outcome.events) {
    const std::string_view type(event.at("type").as_string());
    if (type == "content_block_start") {
      content.push_back(event.at("content_block"));
      input.clear();
    } else if (type == "content_block_delta") {
      base::json::object& block = content.back().as_object();
      for (const char* name : {"thinking", "text", "signature"}) {
        const base::json::value* more = base::Find(event.at("delta"), name);
        if (more != nullptr) block[name] = std::string(block[name].as_string()) + std::string(more->as_string());
      }
      if (const auto* more = base::Find(event.at("delta"), "partial_json")) input += std::string(more->as_string());
    } else if (type == "content_block_stop" && content.back().at("type") == "tool_use") {
      content.back().as_object()["input"] = base::ParseJson(input).value();
    }
  }
  return content;
}

inline bool KeepMessages(const World::Outcome& answer, base::json::array& history) {
  const base::json::value* whole = base::Find(answer.events.at(0), "content");
  const base::json::array content = whole == nullptr ? CollectMessages(answer) : whole->as_array();
  history.push_back(base::json::object{{"role", "assistant"}, {"content", content}});
  base::json::array results;
  for (const base::json::value& block : content) {
    if (block.at("type") != "tool_use") continue;
    results.push_back(base::json::object{{"type", "tool_result"}, {"tool_use_id", block.at("id")}, {"content", "3"}});
  }
  if (results.empty()) return false;
  history.push_back(base::json::object{{"role", "user"}, {"content", results}});
  return true;
}

// ---- responses ----------------------------------------------------------------------------------------------------

inline base::json::object ResponsesBody(const base::json::array& history) {
  base::json::object tool = CalculatorTools()[0].at("function").as_object();
  tool["type"] = "function";
  return base::json::object{{"model", "m"}, {"input", history}, {"tools", base::json::array{tool}}};
}

inline bool KeepResponses(const World::Outcome& answer, base::json::array& history) {
  const base::json::value* completed = base::Find(answer.events.back(), "response");
  base::json::array results;
  for (const base::json::value& item :
       (completed == nullptr ? answer.events.at(0) : *completed).at("output").as_array()) {
    history.push_back(item);
    if (item.at("type") != "function_call") continue;
    results.push_back(
        base::json::object{{"type", "function_call_output"}, {"call_id", item.at("call_id")}, {"output", "3"}});
  }
  for (const base::json::value& result : results) history.push_back(result);
  return !results.empty();
}

// ---- google.generateContent ---------------------------------------------------------------------------------------

// As in the history of a client that drops ids and signatures. System messages after other messages become user
// messages here.
inline base::json::object GoogleBody(const base::json::array& history) {
  using base::json::array;
  using base::json::object;
  array contents, instruction;
  for (const base::json::value& item : history) {
    if (item.as_object().contains("parts")) {
      contents.push_back(item);
    } else if (item.at("role") == "system" && contents.empty()) {
      instruction.push_back(object{{"text", item.at("content")}});
    } else {
      contents.push_back(object{{"role", "user"}, {"parts", array{object{{"text", item.at("content")}}}}});
    }
  }
  object tool = CalculatorTools()[0].at("function").as_object();
  object body{{"model", "m"},
              {"contents", std::move(contents)},
              {"tools", array{object{{"functionDeclarations", array{std::move(tool)}}}}},
              {"generationConfig", object{{"thinkingConfig", object{{"includeThoughts", true}}}}}};
  if (!instruction.empty()) body["systemInstruction"] = object{{"parts", std::move(instruction)}};
  return body;
}

inline bool KeepGoogle(const World::Outcome& answer, base::json::array& history) {
  using base::json::array;
  using base::json::object;
  array kept, results;
  for (const base::json::value& event : answer.events) {
    for (const base::json::value& part : event.at("candidates").at(0).at("content").at("parts").as_array()) {
      const base::json::value* call = base::Find(part, "functionCall");
      if (call == nullptr) {
        kept.push_back(part);
        continue;
      }
      kept.push_back(object{{"functionCall", object{{"name", call->at("name")}, {"args", call->at("args")}}}});
      results.push_back(
          object{{"functionResponse", object{{"name", call->at("name")}, {"response", object{{"output", "3"}}}}}});
    }
  }
  history.push_back(object{{"role", "model"}, {"parts", kept}});
  if (results.empty()) return false;
  history.push_back(object{{"role", "user"}, {"parts", results}});
  return true;
}

inline constexpr Client kChatClient{"chat.completions", ChatBody, KeepChat};
inline constexpr Client kMessagesClient{"messages", MessagesBody, KeepMessages};
inline constexpr Client kResponsesClient{"responses", ResponsesBody, KeepResponses};
inline constexpr Client kGoogleClient{"google.generateContent", GoogleBody, KeepGoogle, "google.streamGenerateContent"};

}  // namespace ingot::gateway
