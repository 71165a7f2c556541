// The events of each dialect's stream, and the equal single reply.
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "gateway/api/dialects/dialects.h"
#include "gateway/fakes.h"

namespace ingot::gateway::dialect_events_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kThoughtAndCall[] =
    "<think>\nhm\n</think>\n\nLet me add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";

// All ids come at once: every part is one delta.
struct Direct : World {
  explicit Direct(Script script) : World([script](const auto&) { return script; }) {
    with_admission = with_pool = false;
    engine->inline_chunks = true;
  }
};

Script Say(const std::string& text, v1::FinishReason finish = v1::FINISH_STOP, const std::string& stop = "") {
  Script script;
  script.text = text;
  script.chunk = 1 << 20;
  script.finish = finish;
  script.end_of_turn = finish == v1::FINISH_STOP && stop.empty();
  script.stop_string = stop;
  return script;
}

// Events as lines, ids of calls as ID.
std::string Lines(const World::Outcome& outcome) {
  std::string lines;
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    lines += outcome.names[i].empty() ? "" : outcome.names[i] + " ";
    lines += base::PrintJson(outcome.events[i]) + "\n";
  }
  return std::regex_replace(lines, std::regex("[0-9a-f]{32}"), "ID");
}

constexpr char kMessagesBody[] = R"({"model":"m","max_tokens":50,"stream":true,"thinking":{"type":"adaptive"},
    "messages":[{"role":"user","content":"1+2?"}],
    "tools":[{"name":"add","input_schema":{"type":"object"}}]})";

TEST(Messages, StreamsBlocksInOrder) {
  Direct world(Say(kThoughtAndCall));
  const auto outcome = world.Ask("messages", "key", kMessagesBody);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const size_t prompt = world.engine->requests()[0].prompt_ids_size();
  const size_t sampled = TestTokenizer()->Encode(kThoughtAndCall, true).size() + 1;
  EXPECT_EQ(
      Lines(outcome),
      absl::StrCat(
          R"(message_start {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":)",
          prompt, R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}
ping {"type":"ping"}
content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}
content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig_ID_0"}}
content_block_stop {"type":"content_block_stop","index":0}
content_block_start {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me add."}}
content_block_stop {"type":"content_block_stop","index":1}
content_block_start {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_ID_0","name":"add","input":{}}}
content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\": 1}"}}
content_block_stop {"type":"content_block_stop","index":2}
message_delta {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":)",
          prompt - 2, R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":)", sampled, R"(}}
message_stop {"type":"message_stop"}
)"));
  EXPECT_EQ(outcome.trailer, "");
}

TEST(Messages, AnswersWhole) {
  Direct world(Say(kThoughtAndCall));
  object body = base::ParseJson(kMessagesBody)->as_object();
  body["stream"] = false;
  const auto outcome = world.Ask("messages", "key", base::PrintJson(body));
  EXPECT_EQ(Lines(outcome).find(R"({"id":"msg_ID","type":"message","role":"assistant","model":"m","content":[)"
                                R"({"type":"thinking","thinking":"hm","signature":"sig_ID_0"},)"
                                R"({"type":"text","text":"Let me add."},)"
                                R"({"type":"tool_use","id":"call_ID_0","name":"add","input":{"a":1}}],)"
                                R"("stop_reason":"tool_use","stop_sequence":null,"usage":{)"),
            0u)
      << Lines(outcome);
}

// Clients that did not ask for thinking read content[0].text.
TEST(Messages, SendsThinkingOnlyToClientsThatAskedForIt) {
  const std::pair<value, bool> cases[] = {{nullptr, false},
                                          {object{{"type", "disabled"}}, false},
                                          {object{{"type", "enabled"}, {"budget_tokens", 1024}}, true},
                                          {object{{"type", "adaptive"}}, true}};
  for (const auto& [thinking, reported] : cases) {
    Direct world(Say(kThoughtAndCall));
    object body = base::ParseJson(kMessagesBody)->as_object();
    body["thinking"] = thinking;
    const auto streamed = world.Ask("messages", "key", base::PrintJson(body));
    array blocks;
    for (const value& event : streamed.events) {
      if (event.at("type") == "content_block_start") {
        EXPECT_EQ(event.at("index").to_number<size_t>(), blocks.size());
        blocks.push_back(event.at("content_block").at("type"));
      } else if (const value* index = base::Find(event, "index")) {
        EXPECT_EQ(index->to_number<size_t>(), blocks.size() - 1);
      }
    }
    EXPECT_EQ(value(blocks),
              reported ? value(array{"thinking", "text", "tool_use"}) : value(array{"text", "tool_use"}));
    body["stream"] = false;
    body["return_token_ids"] = true;
    const value whole = world.Ask("messages", "key", base::PrintJson(body)).events.at(0);
    array types;
    for (const value& block : whole.at("content").as_array()) types.push_back(block.at("type"));
    EXPECT_EQ(types, blocks);
    EXPECT_EQ(whole.at("token_ids").as_array().size(), TestTokenizer()->Encode(kThoughtAndCall, true).size() + 1);
  }
}

// A client cannot send back thinking that it was not sent: the turn is continued on all sampled ids.
TEST(Messages, ThinkingThatWasNotSentIsContinued) {
  Direct world(Say("<think>\nhm\n</think>\n\nyes"));
  object body = base::ParseJson(R"({"max_tokens":50,"messages":[{"role":"user","content":"x"}]})")->as_object();
  const auto first = world.Ask("messages", "key", base::PrintJson(body));
  body["messages"].as_array().push_back(object{{"role", "assistant"}, {"content", first.events.at(0).at("content")}});
  body["messages"].as_array().push_back(object{
      {"role", "user"}, {"content", array{object{{"type", "tool_result"}, {"tool_use_id", "x"}, {"content", "r"}}}}});
  ASSERT_TRUE(world.Ask("messages", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
}

TEST(Messages, SaysWhyItStopped) {
  const struct {
    Script script;
    const char* reason;
    value sequence;
  } cases[] = {{Say("done"), "end_turn", nullptr},
               {Say("cut", v1::FINISH_LENGTH), "max_tokens", nullptr},
               {Say("on and on and on", v1::FINISH_REPETITION), "max_tokens", nullptr},
               {Say("one END", v1::FINISH_STOP, " END"), "stop_sequence", " END"}};
  for (const auto& test : cases) {
    Direct world(test.script);
    const auto outcome = world.Ask(
        "messages", "key", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":9,"stop_sequences":[" END"]})");
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.events[0].at("stop_reason"), test.reason);
    EXPECT_EQ(outcome.events[0].at("stop_sequence"), test.sequence);
  }
}

constexpr char kResponsesBody[] =
    R"({"model":"m","stream":true,"input":"1+2?","include":["reasoning.encrypted_content"],
    "tools":[{"type":"function","name":"add","parameters":{"type":"object"}}]})";

TEST(Responses, StreamsItemsThatEndWithTheWholeResponse) {
  Direct world(Say(kThoughtAndCall));
  const auto outcome = world.Ask("responses", "key", kResponsesBody);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  std::vector<std::string> expected = {"response.created",
                                       "response.in_progress",
                                       "response.output_item.added",  // reasoning
                                       "response.content_part.added",
                                       "response.reasoning_text.delta",
                                       "response.reasoning_text.done",
                                       "response.content_part.done",
                                       "response.output_item.done",
                                       "response.output_item.added",  // message
                                       "response.content_part.added",
                                       "response.output_text.delta",
                                       "response.output_text.done",
                                       "response.content_part.done",
                                       "response.output_item.done",
                                       "response.output_item.added",  // call
                                       "response.function_call_arguments.delta",
                                       "response.function_call_arguments.done",
                                       "response.output_item.done",
                                       "response.completed"};
  EXPECT_EQ(outcome.names, expected);
  array items;
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    const value& event = outcome.events[i];
    EXPECT_EQ(event.at("sequence_number"), i);
    EXPECT_EQ(event.at("type"), value(outcome.names[i]));
    if (outcome.names[i] == "response.output_item.done") items.push_back(event.at("item"));
  }
  EXPECT_EQ(outcome.events.back().at("response").at("output"), value(items));
  EXPECT_EQ(outcome.events.back().at("response").at("status"), "completed");
  for (const value& event : outcome.events) {  // the first event repeats the request's fields, too
    if (!event.as_object().contains("response")) continue;
    EXPECT_EQ(event.at("response").at("tools").at(0).at("name"), "add") << event.at("type");
  }
  EXPECT_EQ(outcome.trailer, "");
  World::Outcome last;
  for (const value& item : items) {
    last.events.push_back(item);
    last.names.emplace_back();
  }
  EXPECT_EQ(
      Lines(last),
      R"({"id":"rs_ID_0","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"ingot1.rs_ID_0.aG0="}
{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me add.","annotations":[],"logprobs":[]}]}
{"id":"fc_ID_0","type":"function_call","status":"completed","call_id":"call_ID_0","name":"add","arguments":"{\"a\": 1}"}
)");
}

// The reply repeats the request's fields, with the vendor's defaults for missing ones.
TEST(Responses, RepeatsTheRequestsFields) {
  struct Case {
    const char* asked;
    const char* fields;
  };
  for (const Case& test : {
           Case{"", R"({"instructions":null,"temperature":1.0,"metadata":{},"tools":[],"tool_choice":"auto",
                        "parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},"store":false})"},
           Case{R"(,"instructions":"Be \"brief\".","temperature":0.5,"metadata":{"a":"b"},"store":true,
                   "parallel_tool_calls":false,"reasoning":{"effort":"low"})",
                R"({"instructions":"Be \"brief\".","temperature":0.5,"metadata":{"a":"b"},"store":false,"tools":[],
                    "tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"low"},"user":null})"},
       }) {
    for (const bool stream : {false, true}) {
      Direct world(Say("3"));
      const auto outcome = world.Ask(
          "responses", "key",
          absl::StrCat(R"({"model":"m","input":"1+2?","stream":)", stream ? "true" : "false", test.asked, "}"));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      const value fields = base::ParseJson(test.fields).value();
      for (const value& event : outcome.events) {
        const value* response = stream ? base::Find(event, "response") : &event;
        if (response == nullptr) continue;
        for (const auto& [name, field] : fields.get_object()) {
          EXPECT_EQ(response->at(name), field) << name << " of " << test.asked;
        }
      }
      if (!stream) continue;
      EXPECT_EQ(outcome.events.front().at("response").at("status"), "in_progress");
      EXPECT_EQ(outcome.events.back().at("response").at("usage").at("output_tokens"), 2);
    }
  }
}

TEST(Responses, CallsToolsAsTheyWereDeclared) {
  const std::string text =
      "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"*** ü\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"mcp__files__read\", \"arguments\": {\"path\": \"x\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"local_shell\", \"arguments\": {\"command\": [\"ls\"], \"timeout_ms\": "
      "5}}\n</tool_call>";
  Direct world(Say(text));
  object body = base::ParseJson(R"({"model":"m","input":"go","stream":true,"tools":[
      {"type":"custom","name":"apply_patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
      {"type":"namespace","name":"mcp__files","description":"d","tools":[{"type":"function","name":"read","parameters":{"type":"object"}}]},
      {"type":"local_shell"},{"type":"web_search"}]})")
                    ->as_object();
  const auto outcome = world.Ask("responses", "key", base::PrintJson(body));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const array output = outcome.events.back().at("response").at("output").as_array();
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0].at("type"), "custom_tool_call");
  EXPECT_EQ(output[0].at("name"), "apply_patch");
  EXPECT_EQ(output[0].at("input"), "*** ü");
  EXPECT_EQ(output[1].at("type"), "function_call");
  EXPECT_EQ(output[1].at("name"), "read");
  EXPECT_EQ(output[1].at("namespace"), "mcp__files");
  EXPECT_EQ(output[2].at("type"), "local_shell_call");
  EXPECT_EQ(output[2].at("action").at("type"), "exec");
  EXPECT_EQ(output[2].at("action").at("command"), value(array{"ls"}));
  EXPECT_NE(std::find(outcome.names.begin(), outcome.names.end(), "response.custom_tool_call_input.done"),
            outcome.names.end());
  // Sent back as they came, they continue the same ids.
  base::json::array input{object{{"role", "user"}, {"content", "go"}}};
  for (const value& item : output) input.push_back(item);
  for (const value& item : output) {
    const std::string kind(item.at("type").as_string());
    input.push_back(object{{"type", kind + "_output"}, {"call_id", item.at("call_id")}, {"output", "ok"}});
  }
  body["input"] = input;
  ASSERT_TRUE(world.Ask("responses", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  EXPECT_TRUE(world.gateway().Status().forks().empty());
}

// The tools that the API knows by their type alone and its clients run.
TEST(Responses, CallsTheClientsOwnTools) {
  const std::string text =
      "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"commands\": [\"ls\"], \"timeout_ms\": 5}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"type\": \"delete_file\", \"path\": "
      "\"a\"}}\n</tool_call>";
  Direct world(Say(text));
  object body = base::ParseJson(R"({"model":"m","input":"go","stream":true,"tools":[
      {"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"}]})")
                    ->as_object();
  const auto outcome = world.Ask("responses", "key", base::PrintJson(body));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const array output = outcome.events.back().at("response").at("output").as_array();
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0].at("type"), "shell_call");
  EXPECT_EQ(output[0].at("action"),
            value(object{{"commands", array{"ls"}}, {"timeout_ms", 5}, {"max_output_length", nullptr}}));
  EXPECT_EQ(output[1].at("type"), "apply_patch_call");
  EXPECT_EQ(output[1].at("operation"), value(object{{"type", "delete_file"}, {"path", "a"}}));
  array input{object{{"role", "user"}, {"content", "go"}}};
  input.insert(input.end(), output.begin(), output.end());
  const object shell_said{{"stdout", "a\n"}, {"stderr", ""}, {"outcome", object{{"type", "exit"}, {"exit_code", 0}}}};
  input.push_back(
      object{{"type", "shell_call_output"}, {"call_id", output[0].at("call_id")}, {"output", array{shell_said}}});
  input.push_back(object{{"type", "apply_patch_call_output"},
                         {"call_id", output[1].at("call_id")},
                         {"status", "completed"},
                         {"output", "gone"}});
  body["input"] = input;
  ASSERT_TRUE(world.Ask("responses", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  EXPECT_TRUE(world.gateway().Status().forks().empty());
}

// A reference stands for the item that was delivered under its id.
TEST(Responses, TakesReferencesToItsItems) {
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  for (const std::string& text : {std::string(kThoughtAndCall), call + "\n" + call, "Well.\n" + call + "\n" + call}) {
    Direct world(Say(text));
    object body = base::ParseJson(kResponsesBody)->as_object();
    body["stream"] = false;
    const auto first = world.Ask("responses", "key", base::PrintJson(body));
    array input{object{{"role", "user"}, {"content", "1+2?"}}};
    const array& output = first.events.at(0).at("output").as_array();
    for (const value& item : output) input.push_back(object{{"type", "item_reference"}, {"id", item.at("id")}});
    for (const value& item : output) {
      if (item.at("type") != "function_call") continue;
      input.push_back(object{{"type", "function_call_output"}, {"call_id", item.at("call_id")}, {"output", "3"}});
    }
    body["input"] = input;
    const auto second = world.Ask("responses", "key", base::PrintJson(body));
    ASSERT_TRUE(second.status.ok()) << second.status;
    EXPECT_EQ(world.gateway().Status().spliced_calls(), 1) << text;
    // In another session there is nothing of that id.
    const auto other = world.Ask("responses", "other", base::PrintJson(body));
    EXPECT_EQ(HttpStatusOf(other.status), 400);
    EXPECT_NE(other.status.message().find("input[1]"), absl::string_view::npos) << other.status;
  }
}

// Items that the client sends whole stand beside items to which it refers.
TEST(Responses, TakesReferencesToSomeOfItsItems) {
  Direct world(Say(kThoughtAndCall));
  object body = base::ParseJson(kResponsesBody)->as_object();
  body["stream"] = false;
  const array output = world.Ask("responses", "key", base::PrintJson(body)).events.at(0).at("output").as_array();
  const auto reference = [&](size_t i) { return object{{"id", output[i].at("id")}}; };
  const object result{{"type", "function_call_output"}, {"call_id", output[2].at("call_id")}, {"output", "3"}};
  const object question{{"role", "user"}, {"content", "1+2?"}};
  body["input"] = array{question, reference(0), output[1], reference(2), result};
  ASSERT_TRUE(world.Ask("responses", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  body["input"] = array{question, output[1], reference(2), result};  // the thought was left out
  ASSERT_TRUE(world.Ask("responses", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 2);
  std::string missing(output[2].at("id").as_string());
  missing.back() = '7';
  body["input"] = array{question, output[1], object{{"type", "item_reference"}, {"id", missing}}};
  EXPECT_EQ(HttpStatusOf(world.Ask("responses", "key", base::PrintJson(body)).status), 400);
}

TEST(Responses, SaysThatItWasCut) {
  Direct world(Say("cut", v1::FINISH_LENGTH));
  const auto outcome = world.Ask("responses", "key", R"({"input":"x","stream":true})");
  EXPECT_EQ(outcome.names.back(), "response.incomplete");
  const value& response = outcome.events.back().at("response");
  EXPECT_EQ(response.at("status"), "incomplete");
  EXPECT_EQ(response.at("incomplete_details").at("reason"), "max_output_tokens");
}

TEST(Responses, SendsReasoningAsASummaryIfOneIsAskedFor) {
  Direct world(Say("<think>\nhm\n</think>\n\nyes"));
  const auto outcome =
      world.Ask("responses", "key", R"({"input":"x","stream":true,"reasoning":{"effort":"low","summary":"auto"}})");
  const auto& names = outcome.names;
  EXPECT_NE(std::find(names.begin(), names.end(), "response.reasoning_summary_text.delta"), names.end());
  EXPECT_EQ(outcome.events.back().at("response").at("output").at(0).at("summary").at(0).at("text"), "hm");
}

TEST(Chat, StreamsDeltas) {
  Direct world(Say(kThoughtAndCall));
  object body = Body({Msg("user", "add")});
  body["stream"] = true;
  body["tools"] = CalculatorTools();
  const auto outcome = world.Ask("chat.completions", "key", base::PrintJson(body));
  std::string deltas;
  for (const value& event : outcome.events) {
    EXPECT_EQ(event.at("choices").as_array().size(), 1u);
    deltas += base::PrintJson(event.at("choices").at(0).at("delta")) + " " +
              base::PrintJson(event.at("choices").at(0).at("finish_reason")) + "\n";
  }
  EXPECT_EQ(std::regex_replace(deltas, std::regex("[0-9a-f]{32}"), "ID"),
            R"({"role":"assistant","content":""} null
{"reasoning_content":"hm"} null
{"content":"Let me add."} null
{"tool_calls":[{"id":"call_ID_0","type":"function","function":{"name":"add","arguments":""},"index":0}]} null
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": 1}"}}]} null
{} "tool_calls"
)");
  EXPECT_EQ(outcome.trailer, "data: [DONE]\n\n");
}

// The chunks of a stream as JSON objects.
struct ChunksAsJson {
  object Chunk(int choice, object delta, value finish, const std::vector<Token>* tokens) const {
    object json{{"index", choice}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", finish}};
    if (tokens != nullptr && request.logprobs) {
      json["logprobs"] = object{{"content", LogprobsJson(*tokens, request.return_token_ids)}, {"refusal", nullptr}};
    }
    if (tokens != nullptr && request.return_token_ids) json["token_ids"] = IdsJson(*tokens);
    object chunk{{"id", "chatcmpl-" + head.id},    {"object", "chat.completion.chunk"},
                 {"created", head.created_unix_s}, {"model", head.model},
                 {"system_fingerprint", nullptr},  {"choices", array{std::move(json)}}};
    if (request.include_usage) chunk["usage"] = nullptr;
    return chunk;
  }
  object Call(int index, const std::string& arguments) const {
    if (old) return {{"function_call", object{{"arguments", arguments}}}};
    return {{"tool_calls", array{object{{"index", index}, {"function", object{{"arguments", arguments}}}}}}};
  }
  object CallBegin(int index, const PartBegin& begin) const {
    object function{{"name", begin.name}, {"arguments", ""}};
    if (old) return {{"function_call", std::move(function)}};
    object call{{"id", begin.id}, {"type", "function"}, {"function", std::move(function)}, {"index", index}};
    return {{"tool_calls", array{std::move(call)}}};
  }
  const ReplyHead& head;
  const GatewayRequest& request;
  const bool old;
};

std::string AnyText(std::mt19937& random) {
  constexpr const char* kPieces[] = {"a",    "\"", "\\",         "\n",           "\r\t", "\x01",
                                     "\x7f", "ü",  "\U0001F600", "{\"b\": [1]}", "</",   " "};
  std::string text;
  for (size_t i = random() % 6; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

// Chunks are written as text, byte for byte what printing them as JSON would give.
TEST(Chat, ChunksAreThePrintedJson) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    auto request = std::make_shared<GatewayRequest>();
    request->stream = true;
    request->n = 2;
    request->logprobs = random() % 2 == 0;
    request->return_token_ids = random() % 2 == 0;
    request->include_usage = random() % 2 == 0;
    const bool old = random() % 3 == 0;
    request->tools.emplace_back().kind = old ? ToolKind::kOldFunction : ToolKind::kFunction;
    const ReplyHead head{.id = "0a", .created_unix_s = 12, .model = AnyText(random)};
    const ChunksAsJson as_json{head, *request, old};
    const auto renderer = ChatDialect().NewRenderer(head, request);
    const int choice = static_cast<int>(random() % 2);
    const std::vector<Token> tokens = {{7, -0.5f, true, true, "ü\"", {{8, -1.5f, "\n"}}}, {9, 0, true, true, "x", {}}};
    std::vector<object> expected;
    const auto add = [&](Event event, object chunk) {
      renderer->Add(choice, std::move(event));
      expected.push_back(std::move(chunk));
    };
    object begun = as_json.Chunk(choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    if (request->return_token_ids) begun["prompt_token_ids"] = array{1, 2};
    add(AnswerBegin{.prompt_tokens = 2, .prompt_ids = {1, 2}, .prompt_text = {}}, std::move(begun));
    for (const PartKind kind : {PartKind::kReasoning, PartKind::kContent}) {
      renderer->Add(choice, PartBegin{kind, "", ""});
      const std::string text = AnyText(random);
      const char* field = kind == PartKind::kReasoning ? "reasoning_content" : "content";
      add(PartDelta{text, tokens}, as_json.Chunk(choice, {{field, text}}, nullptr, &tokens));
      renderer->Add(choice, PartEnd{});
    }
    for (int call = 0; call < 2; ++call) {
      const PartBegin begin{.kind = PartKind::kCall, .id = "call_" + AnyText(random), .name = "add" + AnyText(random)};
      const std::string text = AnyText(random);
      const bool dropped = old && call > 0;  // there is room for one
      renderer->Add(choice, begin);
      if (!dropped) expected.push_back(as_json.Chunk(choice, as_json.CallBegin(call, begin), nullptr, nullptr));
      add(PartDelta{text, {}}, as_json.Chunk(choice, dropped ? object{} : as_json.Call(call, text), nullptr, nullptr));
      renderer->Add(choice, PartEnd{});
    }
    const bool cut = random() % 2 == 0;
    add(AnswerEnd{cut ? v1::FINISH_LENGTH : v1::FINISH_STOP, "", tokens, {}}, as_json.Chunk(choice, {},
                                                                                            cut   ? "length"
                                                                                            : old ? "function_call"
                                                                                                  : "tool_calls",
                                                                                            &tokens));
    const auto events = renderer->TakeEvents();
    ASSERT_EQ(events.size(), expected.size());
    for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].data, base::PrintJson(expected[i]));
  }
}

// The older form of tools: one call, in a field of its own.
TEST(Chat, AnswersFunctionsInTheirOwnForm) {
  Direct world(Say(kThoughtAndCall));
  object body = Body({Msg("user", "add")});
  body["functions"] = base::json::parse(R"([{"name":"add","parameters":{"type":"object"}}])");
  const auto whole = world.Ask("chat.completions", "key", base::PrintJson(body));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const object call{{"name", "add"}, {"arguments", R"({"a": 1})"}};
  EXPECT_EQ(whole.message().at("function_call"), value(call));
  EXPECT_EQ(base::Find(whole.message(), "tool_calls"), nullptr);
  EXPECT_EQ(whole.events[0].at("choices").at(0).at("finish_reason"), "function_call");
  body["stream"] = true;
  std::string deltas;
  for (const value& event : world.Ask("chat.completions", "key", base::PrintJson(body)).events) {
    deltas += base::PrintJson(event.at("choices").at(0).at("delta")) + "\n";
  }
  EXPECT_NE(deltas.find(R"({"function_call":{"name":"add","arguments":""}}
{"function_call":{"arguments":"{\"a\": 1}"}}
{}
)"),
            std::string::npos)
      << deltas;
  // Sent back, it is continued.
  body["messages"].as_array().push_back(whole.message());
  body["messages"].as_array().push_back(object{{"role", "function"}, {"name", "add"}, {"content", "1"}});
  ASSERT_TRUE(world.Ask("chat.completions", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
}

TEST(Completions, ContinuesTextWithoutATemplate) {
  Direct world(Say("grüße <tool_call>no"));
  const auto outcome =
      world.Ask("completions", "key", R"({"prompt":"say <|im_start|>","echo":true,"stream":true,"max_tokens":99})");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const auto sent = world.engine->requests()[0].prompt_ids();
  EXPECT_EQ(std::vector<int32_t>(sent.begin(), sent.end()), TestTokenizer()->Encode("say <|im_start|>", true));
  std::string text;
  for (const value& event : outcome.events) {
    EXPECT_EQ(event.at("object"), "text_completion");
    text += std::string(event.at("choices").at(0).at("text").as_string());
  }
  EXPECT_EQ(text, "say <|im_start|>grüße <tool_call>no");
  EXPECT_EQ(outcome.events.back().at("choices").at(0).at("finish_reason"), "stop");
}

TEST(Completions, TakesManyPromptsAsTextAndIds) {
  Direct world(Say("ok"));
  const auto outcome = world.Ask("completions", "key", R"({"prompt":["a",[98,99]],"n":2,"logprobs":1})");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const array& choices = outcome.events[0].at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  const auto requests = world.engine->requests();
  EXPECT_EQ(requests[1].prompt_ids_size(), 1);
  EXPECT_EQ(requests[2].prompt_ids(0), 98);
  EXPECT_EQ(requests[3].prompt_ids(1), 99);
  EXPECT_EQ(outcome.events[0].at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(outcome.events[0].at("usage").at("completion_tokens"), 12);
  const value& logprobs = choices[0].at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), value(array{"o", "k"}));
  EXPECT_EQ(logprobs.at("text_offset"), value(array{0, 1}));
  EXPECT_TRUE(logprobs.at("top_logprobs").at(1).as_object().contains("k"));
}

// Parts of a character are no text: each has a key of its own.
TEST(Completions, TokensThatAreNoTextAreNamedByTheirBytes) {
  Direct world(Say("a\xF0\x9F"));
  const auto outcome = world.Ask("completions", "key", R"({"prompt":"a","logprobs":1})");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const value& logprobs = outcome.events[0].at("choices").at(0).at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), value(array{"a", R"(bytes:\xf0)", R"(bytes:\x9f)"}));
  EXPECT_TRUE(logprobs.at("top_logprobs").at(1).as_object().contains(R"(bytes:\xf0)"));
  EXPECT_TRUE(logprobs.at("top_logprobs").at(2).as_object().contains(R"(bytes:\x9f)"));
}

// A token of a part of a character is where that character is.
TEST(Completions, OffsetsCountCharacters) {
  Direct world(
      Say("aü\xF0\x9F\x99\x82"
          "b"));
  for (const bool stream : {false, true}) {
    const auto outcome = world.Ask(
        "completions", "key", absl::StrCat(R"({"prompt":"a","logprobs":1,"stream":)", stream ? "true}" : "false}"));
    array offsets;
    for (const value& event : outcome.events) {
      const value& logprobs = event.at("choices").at(0).at("logprobs");
      if (logprobs.is_null()) continue;
      const array& more = logprobs.at("text_offset").as_array();
      offsets.insert(offsets.end(), more.begin(), more.end());
    }
    EXPECT_EQ(offsets, (array{0, 1, 1, 2, 2, 2, 2, 3}));
  }
}

// The content's log-probs exclude delimiters and other parts.
TEST(Logprobs, AreOfTheContentsTokens) {
  const std::string text =
      "<think>\nhm\n</think>\n\nLet ü me.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": "
      "1}}\n</tool_call>\nSo.";
  const auto joined = [](const value& logprobs) {
    std::string bytes;
    for (const value& token : logprobs.as_array()) {
      for (const value& byte : token.at("bytes").as_array()) bytes += static_cast<char>(byte.to_number<int>());
    }
    return bytes;
  };
  for (const int chunk : {1, 1 << 20}) {
    Script script = Say(text);
    script.chunk = chunk;
    Direct world(script);
    object body = Body({Msg("user", "add")});
    body["tools"] = CalculatorTools();
    body["logprobs"] = true;
    const auto whole = world.Ask("chat.completions", "key", base::PrintJson(body));
    const std::string content(whole.message().at("content").as_string());
    EXPECT_EQ(joined(whole.events[0].at("choices").at(0).at("logprobs").at("content")), content);
    body["stream"] = true;
    std::string streamed;
    for (const value& event : world.Ask("chat.completions", "key", base::PrintJson(body)).events) {
      const value& logprobs = event.at("choices").at(0).at("logprobs");
      if (!logprobs.is_null()) streamed += joined(logprobs.at("content"));
    }
    EXPECT_EQ(streamed, content);
    object asked = base::ParseJson(kResponsesBody)->as_object();
    asked["include"] = array{"message.output_text.logprobs"};
    const auto response = world.Ask("responses", "key", base::PrintJson(asked));
    for (const value& item : response.events.back().at("response").at("output").as_array()) {
      if (item.at("type") != "message") continue;
      EXPECT_EQ(joined(item.at("content").at(0).at("logprobs")),
                std::string(item.at("content").at(0).at("text").as_string()));
    }
  }
}

TEST(CountTokens, CountsByTemplateAndTokenizer) {
  Direct world(Say("ok"));
  object body = base::ParseJson(kMessagesBody)->as_object();
  const auto counted = world.Ask("messages.count_tokens", "key", base::PrintJson(body));
  ASSERT_TRUE(counted.status.ok()) << counted.status;
  EXPECT_TRUE(world.engine->requests().empty());
  ASSERT_TRUE(world.Ask("messages", "key", base::PrintJson(body)).status.ok());
  EXPECT_EQ(base::PrintJson(counted.events.at(0)),
            absl::StrCat("{\"input_tokens\":", world.engine->requests()[0].prompt_ids_size(), "}"));
}

// ---- Errors ----

TEST(DialectErrors, AreWordedByEachDialect) {
  const absl::Status overload = absl::UnavailableError("no room");
  const absl::Status context = ApiError(400, kContextLengthExceeded, "messages", "9 tokens > 8 maximum: shorten it");
  EXPECT_EQ(MessagesDialect().ErrorOf(overload).http, 529);
  EXPECT_EQ(MessagesDialect().ErrorOf(overload).body,
            R"({"type":"error","error":{"type":"overloaded_error","message":"no room"}})");
  EXPECT_EQ(MessagesDialect().ErrorOf(context).http, 400);
  EXPECT_EQ(
      MessagesDialect().ErrorOf(context).body,
      R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum: shorten it"}})");
  for (const char* name : {"chat.completions", "completions", "responses"}) {
    EXPECT_EQ(FindDialect(name)->ErrorOf(overload).http, 503);
    EXPECT_EQ(
        FindDialect(name)->ErrorOf(context).body,
        R"({"error":{"message":"9 tokens > 8 maximum: shorten it","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})");
  }
  const std::pair<int, const char*> types[] = {{401, "authentication_error"},
                                               {403, "permission_error"},
                                               {404, "not_found_error"},
                                               {409, "invalid_request_error"},
                                               {413, "request_too_large"},
                                               {429, "rate_limit_error"},
                                               {500, "api_error"},
                                               {504, "timeout_error"}};
  for (const auto& [http, type] : types) {
    const auto error = MessagesDialect().ErrorOf(ApiError(http, "", "", "x"));
    EXPECT_EQ(error.http, http);
    EXPECT_EQ(base::ParseJson(error.body)->at("error").at("type"), type);
    EXPECT_EQ(MayRetry(ApiError(http, "", "", "x")), http == 429 || http >= 500);
  }
}

TEST(DialectErrors, BreakOffAStreamInTheDialectsOwnWay) {
  Script script = Say("half");
  script.chunk = 3;
  script.error = absl::UnavailableError("gone");
  script.hold = true;
  const std::pair<const char*, const char*> cases[] = {
      {"chat.completions", R"(data: {"error":{"message":"the engine ended the call: gone","type":"server_error",)"},
      {"completions", R"(data: {"error":{"message":)"},
      {"messages", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","},
      {"responses", "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":"},
      {"google.streamGenerateContent", ",\n{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"f\"}],"}};
  for (const auto& [name, beginning] : cases) {
    World world([&](const auto&) { return script; });
    world.with_admission = world.with_pool = false;
    auto flag = std::make_shared<Flag>();
    const auto answer = world.gateway().StartAnswer(
        {.api_key = "k", .episode = {}}, *FindDialect(name),
        {.body = name == std::string_view("completions")
                     ? R"({"prompt":"x","stream":true})"
                     : R"({"input":"x","messages":[{"role":"user","content":"x"}],"stream":true,
                           "contents":[{"parts":[{"text":"x"}]}]})",
         .headers = {}},
        [flag] { flag->Set(); });
    world.engine->WaitForHeld(1);
    bool released = false;
    Answer::Output out;
    while (!out.done) {
      flag->WaitAndClear();
      out = answer->TakeOutput();
      if (!released && !out.events.empty()) {
        world.engine->Release();
        released = true;
      }
    }
    EXPECT_EQ(out.trailer.find(beginning), 0u) << name << out.trailer;
    EXPECT_TRUE(absl::IsUnavailable(out.status));
  }
}

}  // namespace
}  // namespace ingot::gateway::dialect_events_test
