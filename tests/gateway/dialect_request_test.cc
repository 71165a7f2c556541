// The conversations and engine requests that each dialect's requests become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "gateway/api/client_tools.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/responses.h"
#include "gateway/api/request_fields.h"
#include "gateway/calls/sampling.h"
#include "gateway/fakes.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway::dialect_request_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

absl::StatusOr<GatewayRequest> Parse(const char* dialect, const std::string& body, Headers headers = {}) {
  return FindDialect(dialect)->Parse({.body = body, .headers = std::move(headers)});
}

// role: content [reasoning] name(arguments) <call id>
std::string Emitted(const GatewayRequest& request) {
  std::string all;
  for (const text::Message& message : request.conversation.messages) {
    absl::StrAppend(&all, message.role, ": ", message.content);
    if (!message.reasoning.empty()) absl::StrAppend(&all, " [", message.reasoning, "]");
    for (const text::ToolCall& call : message.tool_calls) {
      absl::StrAppend(&all, " ", call.name, "(", call.arguments_json, ")");
    }
    if (!message.tool_call_id.empty()) absl::StrAppend(&all, " <", message.tool_call_id, ">");
    all += "\n";
  }
  return all;
}

TEST(MessagesRequest, BecomesAConversation) {
  const auto request = Parse("messages", R"({"model":"claude","max_tokens":64,
      "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1"},{"type":"text","text":"You are.",
                 "cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be brief."}],
      "messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"any"},{"type":"text","text":"I "},
          {"type":"text","text":"do."},{"type":"tool_use","id":"t1","name":"f","input":{"a":false}},
          {"type":"tool_use","id":"t2","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},
          {"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"}]},{"type":"text","text":"now?"}]},
        {"role":"assistant","content":"done"},{"role":"user","content":"ok"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request),
            "system: You are.\n\nBe brief.\n"
            "user: a\nb\n"
            "assistant: I do. [hm] f({\"a\": false}) f({})\n"
            "tool: one <t1>\n"
            "tool: two <t2>\n"
            "user: now?\n"
            "assistant: done\n"
            "user: ok\n");
  EXPECT_EQ(request->max_tokens, 64);
}

TEST(DialectRequests, ErrorsQuoteOnlyTheBeginningOfALongText) {
  const std::string word(70'000, 'w');
  const std::pair<const char*, const char*> bodies[] = {
      {"chat.completions", R"({"model":"m","messages":[{"role":"W","content":"a"}]})"},
      {"chat.completions", R"({"model":"m","messages":[{"role":"user","content":[{"type":"W"}]}]})"},
      {"chat.completions", R"({"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"W"}]})"},
      {"chat.completions",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"function","function":{"name":"W"}}})"},
      {"chat.completions", R"({"model":"m","messages":[{"role":"user","content":"a"}],"temperature":"W"})"},
      {"chat.completions",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"a-W":1}})"},
      {"chat.completions",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"response_format":{"type":"W"}})"},
      {"chat.completions", R"({"model":"m","messages":[{"role":"user","content":"a"}],"logit_bias":{"W":1}})"},
      {"completions", R"({"model":"m","prompt":"a","echo":"W"})"},
      {"messages", R"({"model":"m","max_tokens":1,"messages":[{"role":"W","content":"a"}]})"},
      {"messages", R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"W"}]}]})"},
      {"messages",
       R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"W"}})"},
      {"responses", R"({"model":"m","input":[{"type":"W"}]})"},
      {"responses", R"({"model":"m","input":"a","tools":[{"type":"W"}]})"},
      {"google.generateContent", R"({"contents":[{"role":"W","parts":[{"text":"a"}]}]})"},
      {"google.generateContent", R"({"contents":[{"parts":[{"W":"a"}]}]})"}};
  int errors = 0;
  for (const auto& [dialect, body] : bodies) {
    std::string text = body;
    text.replace(text.find('W'), 1, word);
    const absl::Status status = Parse(dialect, text).status();
    errors += status.ok() ? 0 : 1;
    EXPECT_LE(status.message().size(), 1000u) << body;
    EXPECT_LE(ErrorJson(status).size(), 2000u) << body;
  }
  EXPECT_GE(errors, 10) << "dialects leave out what they need not know";
}

// Like Python's json module, whose integers are unbounded.
TEST(DialectRequests, KeepTheDigitsOfIntegersBeyond64Bits) {
  const auto messages = Parse("messages", R"({"model":"m","max_tokens":4,"messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"id":18446744073709551616}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b"}]}],
      "tools":[{"name":"f","input_schema":{"type":"object","properties":{"id":{"enum":[-9223372036854775809]}}}}]})");
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(messages->conversation.messages[1].tool_calls[0].arguments_json, R"({"id": 18446744073709551616})");
  EXPECT_THAT(base::PrintJson(messages->conversation.tools.at(0)),
              testing::HasSubstr(R"({"type":"object","properties":{"id":{"enum":[-9223372036854775809]}}})"));
  const auto chat = Parse("chat.completions", R"({"model":"m","messages":[{"role":"user","content":"a"}],
      "chat_template_kwargs":{"seen":18446744073709551616}})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(base::PrintJson(chat->conversation.template_variables), R"({"seen":18446744073709551616})");
  EXPECT_FALSE(
      Parse("chat.completions", R"({"model":"m","messages":[{"role":"user","content":18446744073709551616}]})").ok());
  EXPECT_FALSE(Parse("chat.completions", R"({"model":"m","max_tokens":18446744073709551616,
      "messages":[{"role":"user","content":"a"}]})")
                   .ok());
}

// As the vendor does: neighbours of one role are one turn. Results of tools stay messages of their own.
TEST(MessagesRequest, JoinsNeighboursOfOneRole) {
  const auto request = Parse("messages", R"({"model":"m","max_tokens":1,"messages":[
      {"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},
      {"role":"assistant","content":"I "},
      {"role":"assistant","content":[{"type":"text","text":"do."},{"type":"tool_use","id":"t1","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"}]},
      {"role":"user","content":"c"},{"role":"user","content":"d"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "user: a\nb\nassistant: I do. f({})\ntool: one <t1>\nuser: c\nd\n");
  EXPECT_EQ(request->echoed_ids.size(), request->conversation.messages.size());
}

TEST(MessagesRequest, TakesDevelopersForTheSystemAndNoBlocksForAnEmptyText) {
  const auto request = Parse("messages", R"({"max_tokens":1,"messages":[{"role":"developer","content":"Be brief."},
      {"role":"system","content":[]},{"role":"user","content":[]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "system: Be brief.\nuser: \n");
}

// A last turn of the assistant is an answer that the client began, if the model can go on with it.
TEST(BegunAnswer, IsTextOfTheAssistant) {
  const std::string asked = R"("continue_final_message":true,"add_generation_prompt":false)";
  const auto body = [](const std::string& last, const std::string& fields) {
    return R"({"max_tokens":1,"messages":[{"role":"user","content":"q"},)" + last + "]," + fields + "}";
  };
  const std::string begun = R"({"role":"assistant","content":"{"})";
  for (const char* dialect : {"chat.completions", "messages", "messages.count_tokens"}) {
    const auto request = Parse(dialect, body(begun, asked));
    ASSERT_TRUE(request.ok()) << request.status() << dialect;
    EXPECT_TRUE(request->conversation.ends_begun) << dialect;
  }
  EXPECT_TRUE(Parse("messages", body(begun, R"("stream":true)"))->conversation.ends_begun);
  EXPECT_FALSE(Parse("chat.completions", body(begun, R"("stream":true)"))->conversation.ends_begun);
  for (const char* last : {R"({"role":"user","content":"more"})", R"({"role":"assistant","content":" \n"})",
                           R"({"role":"assistant","content":"I add.","tool_calls":[{"id":"c","type":"function",
                              "function":{"name":"f","arguments":"{}"}}]})"}) {
    const absl::Status status = Parse("chat.completions", body(last, asked)).status();
    EXPECT_EQ(HttpStatusOf(status), 400) << last;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("the model cannot continue the last message of 'messages'"));
  }
  const absl::Status raw =
      Parse("completions", R"({"prompt":"x","continue_final_message":true,"add_generation_prompt":false})").status();
  EXPECT_THAT(std::string(raw.message()), testing::HasSubstr("'prompt' is not a conversation"));
}

TEST(MessagesRequest, ReadsTextWhereverItLies) {
  const auto request = Parse("messages", R"({"model":"m","max_tokens":1,"messages":[
      {"role":"user","content":[{"type":"document","title":"T","source":{"type":"content","content":"whole"}},
        {"type":"document","source":{"type":"content","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}},
        {"type":"search_result","title":"Found","source":"https://a","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]},
      {"role":"assistant","content":[{"type":"compaction","content":"So far."},
        {"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},
        {"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"u"}]},
        {"type":"compaction","content":null},{"type":"text","text":" Then."},
        {"type":"tool_use","id":"t1","name":"find","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"f"},
        {"type":"search_result","title":"In","source":"s","content":[{"type":"text","text":"z"}]}]}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request),
            "user: T\n\nwhole\none\ntwo\nFound\n\nhttps://a\n\nx\ny\n"
            "assistant: So far. Then. find({})\n"
            "tool: f\nIn\n\ns\n\nz <t1>\n");
  for (const char* block :
       {R"({"type":"document","source":{"type":"content","content":[{"type":"image"}]}})",
        R"({"type":"search_result","content":[{"type":"image"}]})", R"({"type":"tool_reference","tool_name":7})"}) {
    const auto rejected =
        Parse("messages", absl::StrCat(R"({"max_tokens":1,"messages":[{"role":"user","content":[)", block, "]}]}"));
    EXPECT_EQ(HttpStatusOf(rejected.status()), 400) << block;
  }
}

TEST(MessagesRequest, ReadsDocumentsThatAreText) {
  const auto read = [](const std::string& document) {
    return Parse("messages", R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":[)" + document +
                                 R"(,{"type":"text","text":"Sum it up."}]}]})");
  };
  const auto request = read(R"({"type":"document","title":"Notes","context":"Of May.",
      "source":{"type":"text","media_type":"text/plain","data":"a, b"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "user: Notes\n\nOf May.\n\na, b\nSum it up.\n");
  for (const char* source : {R"({"type":"base64","media_type":"application/pdf","data":"JVBE"})",
                             R"({"type":"text","data":7})", "7", "null"}) {
    const auto rejected = read(absl::StrCat(R"({"type":"document","source":)", source, "}"));
    EXPECT_EQ(HttpStatusOf(rejected.status()), 400) << source;
  }
}

// Tools that clients declare by their type alone and run themselves.
TEST(Requests, DeclareTheClientsOwnTools) {
  const auto names = [](const char* dialect, const std::string& tools, const std::string& more = "") {
    const auto request =
        Parse(dialect, absl::StrCat(R"({"max_tokens":1,"input":"x","messages":[{"role":"user","content":"x"}],
        "tools":[)",
                                    tools, "]", more, "}"));
    EXPECT_TRUE(request.ok()) << request.status();
    std::string all;
    for (const value& tool : request->conversation.tools) {
      EXPECT_TRUE(tool.at("function").at("parameters").at("properties").is_object());
      absl::StrAppend(&all, std::string(tool.at("function").at("name").as_string()), " ");
    }
    for (const std::string& name : request->tool_choice.names) absl::StrAppend(&all, "!", name);
    return all;
  };
  EXPECT_EQ(names("messages", R"({"type":"bash_20250124","name":"bash"},{"type":"memory_20250818","name":"memory"},
      {"type":"web_search_20250305","name":"web_search"})"),
            "bash memory ");
  EXPECT_EQ(names("responses", R"({"type":"local_shell"},{"type":"shell"},{"type":"apply_patch"},{"type":"file_search"},
      {"type":"shell","environment":{"type":"container_auto"}})",
                  R"(,"tool_choice":{"type":"apply_patch"})"),
            "local_shell shell apply_patch !apply_patch");
  const std::pair<const char*, const char*> rejected[] = {
      {"messages", R"({"type":"computer_20250124","name":"computer","display_width_px":1})"},
      {"responses", R"({"type":"computer_use_preview"})"},
      {"responses", R"({"type":"computer"})"}};
  for (const auto& [dialect, tool] : rejected) {
    const auto status =
        Parse(dialect, absl::StrCat(R"({"max_tokens":1,"input":"x","messages":[{"role":"user","content":"x"}],
        "tools":[)",
                                    tool, "]}"))
            .status();
    EXPECT_EQ(HttpStatusOf(status), 400) << tool;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("computer"));
  }
}

TEST(ResponsesRequest, ReadsTheClientsOwnToolsAndTheirResults) {
  const auto request = Parse("responses", R"({"input":[{"role":"user","content":"q"},
      {"type":"shell_call","id":"sh_1","call_id":"c1","status":"completed",
       "action":{"commands":["ls","false"],"timeout_ms":null,"max_output_length":9}},
      {"type":"apply_patch_call","call_id":"c2","operation":{"type":"create_file","path":"p","diff":"+a"}},
      {"type":"apply_patch_call","call_id":"c3","operation":{"type":"delete_file","path":"p"}},
      {"type":"computer_call","call_id":"c4","action":{"type":"screenshot"}},
      {"type":"shell_call_output","call_id":"c1","max_output_length":9,"output":[
        {"stdout":"a\n","stderr":"","outcome":{"type":"exit","exit_code":0}},
        {"stdout":"o","stderr":"e","outcome":{"type":"exit","exit_code":2}},
        {"stdout":"","stderr":"","outcome":{"type":"timeout"}}]},
      {"type":"apply_patch_call_output","call_id":"c2","status":"completed"},
      {"type":"apply_patch_call_output","call_id":"c3","status":"failed","output":"no such file"},
      {"type":"computer_call_output","call_id":"c4","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AAAA"}},
      {"role":"user","content":"ok"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request),
            "user: q\n"
            "assistant:  shell({\"commands\": [\"ls\", \"false\"], \"max_output_length\": 9}) "
            "apply_patch({\"type\": \"create_file\", \"path\": \"p\", \"diff\": \"+a\"}) "
            "apply_patch({\"type\": \"delete_file\", \"path\": \"p\"})\n"
            "tool: a\no\ne\n[exit code 2]\n[timed out] <c1>\n"
            "tool: completed <c2>\n"
            "tool: failed: no such file <c3>\n"
            "user: ok\n");
}

TEST(ResponsesRequest, PutsAnAssistantsItemsTogether) {
  const auto request = Parse("responses", R"({"instructions":"You are.","input":[
      {"role":"developer","content":"Be brief."},{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},
      {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I do."}]},
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
      {"type":"custom_tool_call","call_id":"c2","name":"patch","input":"x"},
      {"type":"function_call_output","call_id":"c1","output":"one"},
      {"type":"custom_tool_call_output","call_id":"c2","output":"two"},
      {"type":"reasoning","summary":[{"type":"summary_text","text":"so"}]},
      {"type":"local_shell_call","call_id":"c3","status":"completed","action":{"type":"exec","command":["ls"],"env":{},"timeout_ms":null}},
      {"type":"local_shell_call_output","id":"c3","output":"files"},
      {"type":"web_search_call","id":"w"},
      {"type":"message","role":"assistant","content":"done"},{"type":"message","role":"user","content":"ok"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request),
            "system: You are.\n"
            "system: Be brief.\n"
            "user: q\n"
            "assistant: I do. [hm] f({\"a\":1}) patch({\"input\":\"x\"})\n"
            "tool: one <c1>\n"
            "tool: two <c2>\n"
            "assistant:  [so] local_shell({\"command\": [\"ls\"]})\n"
            "tool: files <c3>\n"
            "assistant: done\n"
            "user: ok\n");
}

TEST(ResponsesRequest, JoinsCallsOfOneAnswerAcrossTheirResults) {
  const std::string call = "call_0123456789abcdef0123456789abcdef_";
  const auto request = Parse("responses", absl::StrCat(R"({"input":[{"role":"user","content":"q"},
      {"type":"function_call","call_id":")",
                                                       call, R"(0","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":")",
                                                       call, R"(0","output":"one"},
      {"type":"function_call","call_id":")",
                                                       call, R"(1","name":"g","arguments":"{}"},
      {"type":"function_call_output","call_id":")",
                                                       call, R"(1","output":"two"},
      {"type":"function_call","call_id":"call_ffffffffffffffffffffffffffffffff_0","name":"h","arguments":"{}"}]})"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), absl::StrCat("user: q\nassistant:  f({}) g({})\ntool: one <", call, "0>\ntool: two <",
                                            call, "1>\nassistant:  h({})\n"));
  EXPECT_EQ(request->echoed_ids[1], (std::vector<std::string>{call + "0", call + "1"}));
}

TEST(ResponsesRequest, SaysThatNothingIsStored) {
  for (const char* field : {"previous_response_id", "conversation", "prompt"}) {
    const auto status = Parse("responses", absl::StrCat(R"({"input":"x",")", field, R"(":"id"})")).status();
    EXPECT_EQ(ErrorCodeOf(status), "unsupported_parameter");
    EXPECT_NE(status.message().find("store: false"), absl::string_view::npos);
  }
  EXPECT_TRUE(Parse("responses", R"({"input":"x","previous_response_id":null,"background":false,"store":true})").ok());
  EXPECT_EQ(HttpStatusOf(Parse("responses", R"({"input":[{"type":"item_reference","id":"x"}]})").status()), 400);
}

// It runs a command, whatever type the model wrote beside that.
TEST(ResponsesRequest, AShellActionIsAlwaysOneThatRuns) {
  const ClientTool& shell = *FindClientTool("local_shell");
  const auto action = [&](const char* arguments) { return base::CanonicalJson(AskedOf(shell, arguments)); };
  EXPECT_EQ(action(R"({"type":"run","command":"ls -l"})"),
            R"({"command":["bash","-lc","ls -l"],"env":{},"type":"exec"})");
  EXPECT_EQ(action(R"({"command":["ls"],"timeout_ms":5})"),
            R"({"command":["ls"],"env":{},"timeout_ms":5,"type":"exec"})");
  EXPECT_EQ(action("ls -l"), R"({"command":[],"env":{},"type":"exec"})");
  EXPECT_EQ(ArgumentsOf(shell, AskedOf(shell, R"({"type":"run","env":{},"command":["ls"],"timeout_ms":null})")),
            R"({"command": ["ls"]})");
}

TEST(ResponsesRequest, TakesSealedReasoningBack) {
  const std::string id = "rs_0123456789abcdef0123456789abcdef_0";
  for (const std::string text : {"", "a", "ab", "abc", "grüße\n\x01"}) {
    std::string owner;
    EXPECT_EQ(UnsealReasoning(SealReasoning(text, id), owner), text);
    EXPECT_EQ(owner, id);
  }
  EXPECT_EQ(SealReasoning("hello!?", id), "ingot1." + id + ".aGVsbG8hPw==");
  std::string owner = "theirs";
  for (const char* other : {"", "gAAAAABo", "ingot1.", "ingot1.x", "ingot1.x.!"}) {
    EXPECT_EQ(UnsealReasoning(other, owner), "");
    EXPECT_EQ(owner, "theirs");
  }
  const auto request = Parse("responses", absl::StrCat(R"({"input":[{"role":"user","content":"q"},
      {"type":"reasoning","summary":[],"encrypted_content":")",
                                                       SealReasoning("hm", id), R"("},
      {"role":"assistant","content":"a"}]})"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(Emitted(*request), "user: q\nassistant: a [hm]\n");
  EXPECT_EQ(request->echoed_ids[1], std::vector<std::string>{id});
}

TEST(ChatRequest, AcceptsAllFormsOfContent) {
  const auto request = Parse("chat.completions", R"({"messages":[{"role":"user","content":null},
      {"role":"system","content":"mid"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]},
      {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a":1}}}]},
      {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "user: \nsystem: mid\nassistant: ano\nassistant:  f({\"a\": 1})\ntool: r <c>\n");
}

TEST(ChatRequest, ReadsTheOlderFormOfTools) {
  const std::string body = R"({"functions":[{"name":"f","description":"d","parameters":{"type":"object"}},{"name":"g"}],
      "messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"r"}])";
  const auto request = Parse("chat.completions", body + R"(,"function_call":{"name":"g"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->tools.size(), 2u);
  EXPECT_EQ(request->tool_choice.mode, ToolChoice::Mode::kRequired);
  EXPECT_EQ(request->tool_choice.names, std::vector<std::string>{"g"});
  EXPECT_FALSE(request->parallel_tool_calls);  // there is room for one
  // A result answers the call before it, whose id the older form does not have.
  const std::string id = request->conversation.messages[1].tool_calls.at(0).id;
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(Emitted(*request), "user: q\nassistant:  f({})\ntool: r <" + id + ">\n");
  EXPECT_EQ(Parse("chat.completions", body + R"(,"function_call":"none"})")->tool_choice.mode, ToolChoice::Mode::kNone);
  for (const char* bad : {R"("function_call":"maybe")", R"("function_call":{"name":"h"})", R"("functions":[{}])"}) {
    EXPECT_EQ(HttpStatusOf(Parse("chat.completions", body + "," + bad + "}").status()), 400) << bad;
  }
}

// Beside "auto" there is nothing that holds the model to some of its tools but not to show it the others.
TEST(Requests, LeaveOutToolsThatAreNotAllowed) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"tools":[
      {"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],
      "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[)";
  const std::string responses = R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],
      "tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search_preview"},{"type":"mcp","server_label":"s","name":"t"},)";
  for (const auto& request : {Parse("chat.completions", chat + R"({"type":"function","function":{"name":"g"}}]}}})"),
                              Parse("responses", responses + R"({"type":"function","name":"g"}]}})")}) {
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->tool_choice.mode, ToolChoice::Mode::kAuto);
    ASSERT_EQ(request->tools.size(), 1u);
    EXPECT_EQ(request->tools[0].name, "g");
    ASSERT_EQ(request->conversation.tools.size(), 1u);
    EXPECT_EQ(request->conversation.tools[0].at("function").at("name"), "g");
  }
  const auto hosted = Parse("responses", responses + R"({"type":"file_search"}]}})");
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  EXPECT_TRUE(hosted->tools.empty());
  EXPECT_EQ(
      HttpStatusOf(Parse("chat.completions", chat + R"({"type":"function","function":{"name":"h"}}]}}})").status()),
      400);
}

TEST(Requests, MeanTheSameByEveryNameOfALimit) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    const auto request =
        Parse("chat.completions", absl::StrCat(R"({"messages":[{"role":"user","content":"x"}],")", name, R"(":7})"));
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->max_tokens, 7);
  }
}

TEST(Requests, TurnThinkingIntoTemplateVariables) {
  const auto variables = [](const char* dialect, const std::string& body) {
    return base::PrintJson(Parse(dialect, body)->conversation.template_variables);
  };
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  EXPECT_EQ(variables("chat.completions", chat + R"("reasoning_effort":"high"})"),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"high"})");
  EXPECT_EQ(variables("chat.completions", chat + R"("reasoning_effort":"none"})"),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables("chat.completions", chat + R"("chat_template_kwargs":{"x":[1]}})"), R"({"x":[1]})");
  EXPECT_EQ(variables("messages", chat + R"("thinking":{"type":"disabled"}})"),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables("responses", R"({"input":"x","reasoning":{"effort":"low"}})"),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})");
  EXPECT_EQ(variables("messages", chat + R"("thinking":{"type":"adaptive"}})"), "{}");
}

TEST(Requests, ChooseToolsInTheWordsOfEachDialect) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"tools":[
      {"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],"tool_choice":)";
  const std::string messages =
      R"({"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],"tool_choice":)";
  const std::string responses =
      R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],"tool_choice":)";
  using Mode = ToolChoice::Mode;
  const struct {
    const char* dialect;
    const std::string& body;
    const char* choice;
    Mode mode;
    size_t names;
  } cases[] = {
      {"chat.completions", chat, R"("none")", Mode::kNone, 0},
      {"chat.completions", chat, R"("required")", Mode::kRequired, 0},
      {"chat.completions", chat, R"({"type":"function","function":{"name":"g"}})", Mode::kRequired, 1},
      {"messages", messages, R"({"type":"auto"})", Mode::kAuto, 0},
      {"messages", messages, R"({"type":"any"})", Mode::kRequired, 0},
      {"messages", messages, R"({"type":"tool","name":"g"})", Mode::kRequired, 1},
      {"messages", messages, R"({"type":"none"})", Mode::kNone, 0},
      {"responses", responses, R"({"type":"function","name":"g"})", Mode::kRequired, 1},
      {"responses", responses,
       R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"},{"type":"function","name":"f"}]})",
       Mode::kRequired, 2}};
  for (const auto& test : cases) {
    const auto request = Parse(test.dialect, test.body + test.choice + "}");
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->tool_choice.mode, test.mode) << test.choice;
    EXPECT_EQ(request->tool_choice.names.size(), test.names) << test.choice;
  }
  for (const char* bad : {R"({"type":"tool","name":"h"})", R"("maybe")", "7"}) {
    EXPECT_EQ(HttpStatusOf(Parse("messages", messages + bad + "}").status()), 400) << bad;
  }
}

// ---- What the engine is asked for ----

template <typename Sequences>
std::string SequencesText(const Sequences& sequences) {
  std::string all;
  for (const v1::GrammarSequence& sequence : sequences) {
    for (const v1::GrammarPart& part : sequence.parts()) {
      if (part.has_literal()) all += "'" + part.literal() + "'";
      if (part.has_json_schema()) all += "<" + part.json_schema() + ">";
      if (part.has_parameters()) {
        const v1::GrammarParameters& syntax = part.parameters();
        all += "{" + syntax.begin() + "|" + syntax.text_key_end() + "|" + syntax.json_key_end() + "|" +
               syntax.value_end() + "|" + syntax.stop() + " " + syntax.json_schema() + "}";
      }
      if (part.has_python_keywords()) all += "(" + part.python_keywords() + ")";
      if (part.has_regex()) all += "/" + part.regex() + "/";
      if (part.has_repeat()) {
        all += "some '" + part.repeat().between() + "'(\n" + SequencesText(part.repeat().alternatives()) + ")";
      }
    }
    all += "\n";
  }
  return all;
}

std::string Alternatives(const v1::Grammar& grammar) {
  return (grammar.begins_after().empty() ? "" : "after " + grammar.begins_after() + "\n") +
         SequencesText(grammar.alternatives());
}

std::string GrammarText(const std::string& fields, bool thinking_open = false,
                        const text::ChatFormat& format = *TestFormat()) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],"tools":[
      {"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","required":["a"]}}},
      {"type":"function","function":{"name":"g","strict":false}}],)" +
                           fields + "}";
  const auto grammar = GrammarOf(format, *Parse("chat.completions", body), thinking_open);
  return grammar.has_value() ? Alternatives(*grammar) : "none\n";
}

TEST(Grammar, ConstrainsTheAnswerToTheRequest) {
  const std::string f =
      "'<tool_call>\n{\"name\": \"f\", \"arguments\": '<{\"type\":\"object\",\"required\":[\"a\"]}>'}\n</tool_call>'\n";
  const std::string g = "'<tool_call>\n{\"name\": \"g\", \"arguments\": '<{\"type\":\"object\"}>'}\n</tool_call>'\n";
  const std::string schema =
      R"("response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"type":"array"}}})";
  const std::string some = "some '\n'(\n" + f + g + ")\n";  // parallel calls
  EXPECT_EQ(GrammarText(R"("tool_choice":"auto")"), "none\n");
  EXPECT_EQ(GrammarText(R"("tool_choice":"required")"), some);
  EXPECT_EQ(GrammarText(R"("tool_choice":"required","parallel_tool_calls":false)"), f + g);
  EXPECT_EQ(GrammarText(R"("tool_choice":{"type":"function","function":{"name":"g"}})"), g);
  EXPECT_EQ(GrammarText(schema), some + "<{\"type\":\"array\"}>\n");
  EXPECT_EQ(GrammarText(schema + R"(,"tool_choice":"none")"), "<{\"type\":\"array\"}>\n");
  EXPECT_EQ(GrammarText(R"("tool_choice":"none","response_format":{"type":"json_object"})"),
            "<{\"type\":\"object\"}>\n");
  // A schema that is not strict constrains sampling as far as possible.
  EXPECT_EQ(GrammarText(R"("tool_choice":"none","response_format":{"type":"json_schema",
                            "json_schema":{"schema":{"type":"array"}}})"),
            "<{\"type\":\"array\",\"x-lenient\":true}>\n");
  const base::json::value tool =
      *base::ParseJson(R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required",
      "tools":[{"type":"function","function":{"name":"f","parameters":{"not":{}}}}]})");
  EXPECT_THAT(Alternatives(*GrammarOf(*TestFormat(), *Parse("chat.completions", base::PrintJson(tool)), false)),
              testing::HasSubstr(R"(<{"not":{},"x-lenient":true}>)"));
  // Thinking comes first where it is asked for, or has begun.
  const std::string thought = "after </think>\n'\n\n" + g.substr(1);
  EXPECT_EQ(GrammarText(R"("tool_choice":{"type":"function","function":{"name":"g"}})", true), thought);
  EXPECT_EQ(GrammarText(R"("tool_choice":{"type":"function","function":{"name":"g"}},"reasoning_effort":"low")"),
            thought);
}

// The fields by which vLLM, SGLang and llama.cpp constrain an answer, in every dialect that has an answer.
TEST(Grammar, ConstrainsTheAnswerByTheFieldsOfOtherServers) {
  struct Case {
    const char* fields;
    const char* alternatives;
    const char* field;  // for errors
  };
  const Case cases[] = {
      {R"("structured_outputs":{"json":{"type":"array"}})", "<{\"type\":\"array\"}>\n", "structured_outputs.json"},
      {R"("structured_outputs":{"json":"{\"type\":\"array\"}","disable_fallback":true})", "<{\"type\":\"array\"}>\n",
       "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a+","json":null,"disable_any_whitespace":false})", "/a+/\n",
       "structured_outputs.regex"},
      {R"("structured_outputs":{"choice":["yes","no"]})", "'yes'\n'no'\n", "structured_outputs.choice"},
      {R"("structured_outputs":{"json_object":true})", "<{\"type\":\"object\"}>\n", "structured_outputs.json_object"},
      {R"("guided_json":{"type":"array"})", "<{\"type\":\"array\"}>\n", "guided_json"},
      {R"("guided_regex":"a+","guided_grammar":null)", "/a+/\n", "guided_regex"},
      {R"("guided_choice":["yes","no"],"guided_decoding_backend":"xgrammar")", "'yes'\n'no'\n", "guided_choice"},
      {R"("json_schema":{"type":"array"},"grammar":"")", "<{\"type\":\"array\"}>\n", "json_schema"},
      {R"("regex":"a+")", "/a+/\n", "regex"},
      {R"("structured_outputs":{"json_object":false},"structured_outputs":{})", "none\n", "response_format"},
  };
  for (const Case& one : cases) {
    for (const auto& [dialect, prompt] :
         {std::pair("chat.completions", R"("messages":[{"role":"user","content":"x"}])"),
          std::pair("completions", R"("prompt":"x")"), std::pair("responses", R"("input":"x")"),
          std::pair("messages", R"("max_tokens":9,"messages":[{"role":"user","content":"x"}])")}) {
      const auto request = Parse(dialect, absl::StrCat("{", prompt, ",", one.fields, "}"));
      ASSERT_TRUE(request.ok()) << request.status() << one.fields;
      const auto grammar = GrammarOf(*TestFormat(), *request, false);
      EXPECT_EQ(grammar.has_value() ? Alternatives(*grammar) : "none\n", one.alternatives) << dialect << one.fields;
      EXPECT_EQ(request->format_field, one.field) << dialect;
    }
  }
  // A schema inside json_object, as llama.cpp's.
  EXPECT_EQ(GrammarText(R"("tool_choice":"none","response_format":{"type":"json_object","schema":{"type":"array"}})"),
            "<{\"type\":\"array\",\"x-lenient\":true}>\n");
  EXPECT_EQ(
      GrammarText(
          R"("tool_choice":"none","response_format":{"type":"json_object","strict":true,"schema":{"type":"array"}})"),
      "<{\"type\":\"array\"}>\n");
  EXPECT_EQ(GrammarText(R"("tool_choice":"none","response_format":{"type":"json_object","schema":null})"),
            "<{\"type\":\"object\"}>\n");
}

// No constraint is dropped without a word.
TEST(Requests, RejectConstraintsThatTheyCannotHoldTo) {
  const char* const rejected[][2] = {
      {R"("grammar":"root ::= \"a\"")", "grammar"},
      {R"("guided_grammar":"root ::= \"a\"")", "guided_grammar"},
      {R"("ebnf":"root ::= \"a\"")", "ebnf"},
      {R"("structural_tag":{"type":"structural_tag"})", "structural_tag"},
      {R"("guided_whitespace_pattern":"[ ]")", "guided_whitespace_pattern"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", "structured_outputs.grammar"},
      {R"("structured_outputs":{"structural_tag":"{}"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"json":{},"whitespace_pattern":" "})", "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs":{"json":{},"disable_any_whitespace":true})",
       "structured_outputs.disable_any_whitespace"},
      {R"("structured_outputs":{"lark":"start: x"})", "structured_outputs.lark"},
      {R"("structured_outputs":{"json":[]})", "structured_outputs.json"},
      {R"("structured_outputs":{"json":"{"})", "structured_outputs.json"},
      {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"choice":["a",1]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"regex":1})", "structured_outputs.regex"},
      {R"("structured_outputs":"json")", "structured_outputs"},
      {R"("structured_outputs":{"json":{},"regex":"a"})", "structured_outputs.regex"},
      {R"("guided_json":{},"guided_choice":["a"])", "guided_choice"},
      {R"("guided_json":{},"response_format":{"type":"json_object"})", "response_format"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("add_generation_prompt":false)", "add_generation_prompt"},
      {R"("allowed_token_ids":[1])", "allowed_token_ids"},
      {R"("bad_words":["no"])", "bad_words"},
      {R"("use_beam_search":true)", "use_beam_search"},
      {R"("prompt_logprobs":0)", "prompt_logprobs"},
      {R"("truncate_prompt_tokens":9)", "truncate_prompt_tokens"},
      {R"("stop_token_ids":["a"])", "stop_token_ids"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":10,"max_tokens":9)", "min_tokens"},
      {R"("min_tokens":1,"guided_regex":"a")", "min_tokens"},
      {R"("ignore_eos":true,"guided_regex":"a")", "ignore_eos"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("include_stop_str_in_output":"yes")", "include_stop_str_in_output"},
  };
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],)";
  for (const auto& [fields, param] : rejected) {
    const absl::Status status = Parse("chat.completions", body + fields + "}").status();
    EXPECT_EQ(HttpStatusOf(status), 400) << fields;
    EXPECT_EQ(base::ParseJson(ErrorJson(status))->at("error").at("param"), param) << fields << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(absl::StrCat("'", param, "'")));
  }
  // The values with which clients ask for nothing.
  EXPECT_TRUE(Parse("chat.completions", body + R"("grammar":"","guided_json":null,"continue_final_message":false,
      "add_generation_prompt":true,"bad_words":[],"allowed_token_ids":null,"use_beam_search":false,"min_tokens":0,
      "prompt_logprobs":null,"stop_token_ids":[],"ignore_eos":false,"structured_outputs":null})")
                  .ok());
  EXPECT_EQ(
      HttpStatusOf(
          Parse("messages", R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"grammar":"a"})").status()),
      400);
}

// A chat format with the calls of another output format.
std::shared_ptr<const text::ChatFormat> With(const std::string& output) {
  auto chat_template = text::ChatTemplate::Make("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
                                                R"({"eos_token": "<|im_end|>"})", "");
  const auto encoder = std::make_shared<const text::MarkedEncoder>(TestTokenizer(), (*chat_template)->source());
  return text::MakeTemplateFormat(*chat_template, encoder, *text::FindOutputFormat(output)).value();
}

TEST(Grammar, ConstrainsCallsInOtherFormats) {
  const std::string named = R"("tool_choice":{"type":"function","function":{"name":"g"}})";
  EXPECT_EQ(GrammarText(named, false, *With("qwen3_coder")),
            "'<tool_call>\n<function=g>\n'{<parameter=|>\n|>\n|\n</parameter>\n|</parameter> {\"type\":\"object\"}}"
            "'</function>\n</tool_call>'\n");
  EXPECT_EQ(GrammarText(named, false, *With("minimax_m2")),
            "'<minimax:tool_call>\n<invoke name=\"g\">\n'{<parameter name=\"|\">|\">|</parameter>\n|</parameter> "
            "{\"type\":\"object\"}}'</invoke>\n</minimax:tool_call>'\n");
  EXPECT_EQ(GrammarText(named, false, *With("llama_pythonic")), "'[g('({\"type\":\"object\"})')]'\n");
  EXPECT_EQ(GrammarText(R"("tool_choice":"required")", false, *With("lfm2")),
            "'<|tool_call_start|>['some ', '(\n'f('({\"type\":\"object\",\"required\":[\"a\"]})')'\n"
            "'g('({\"type\":\"object\"})')'\n)']<|tool_call_end|>'\n");
  // The marks around all calls are not repeated. Numbered calls may have any number.
  const std::string g =
      "'<|tool_call_begin|>functions.g:'<{\"type\":\"integer\",\"minimum\":0}>"
      "'<|tool_call_argument_begin|>'<{\"type\":\"object\"}>'<|tool_call_end|>'\n";
  const std::string both = GrammarText(R"("tool_choice":"required")", false, *With("kimi_k2"));
  EXPECT_TRUE(both.starts_with("'<|tool_calls_section_begin|>'some ''(\n'<|tool_call_begin|>functions.f:'")) << both;
  EXPECT_TRUE(both.ends_with(g + ")'<|tool_calls_section_end|>'\n")) << both;
}

TEST(Grammar, RejectsCallsThatCannotBeForced) {
  const std::string required = R"("tool_choice":"required")";
  const auto check = [&](const std::string& format, const std::string& choice) {
    const std::string body = R"({"messages":[{"role":"user","content":"x"}],
        "tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"a b"}}],)" +
                             choice + "}";
    return CheckToolChoice(*With(format), *Parse("chat.completions", body));
  };
  EXPECT_TRUE(check("hermes", required).ok());
  EXPECT_TRUE(check("plain", R"("tool_choice":"auto")").ok());
  EXPECT_EQ(HttpStatusOf(check("plain", required)), 400);
  EXPECT_THAT(std::string(check("plain", required).message()), testing::HasSubstr("'plain' has no tool calls"));
  EXPECT_THAT(std::string(check("plain", required).message()), testing::HasSubstr("--chat-format hermes"));
  EXPECT_EQ(HttpStatusOf(check("qwen3_coder", required)), 400);
  EXPECT_THAT(std::string(check("qwen3_coder", required).message()), testing::HasSubstr("tool name 'a b'"));
  EXPECT_TRUE(check("qwen3_coder", R"("tool_choice":{"type":"function","function":{"name":"f"}})").ok());
  EXPECT_EQ(ErrorParamOf(check("plain", required)), "tool_choice");
  const std::string google =
      R"({"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],
      "tool_config":{"functionCallingConfig":{"mode":"ANY"}}})";
  EXPECT_EQ(ErrorParamOf(CheckToolChoice(*With("plain"), *Parse("google.generateContent", google))), "tool_config");
}

TEST(Grammar, IsFlaggedInTrainingAndPenaltiesAreLeftOut) {
  World world([](const auto&) {
    Script script;
    script.text = "{}";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "x")});
  body["response_format"] = object{{"type", "json_object"}};
  body["frequency_penalty"] = 1;
  body["logit_bias"] = object{{"5", 1}};
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  const v1::SamplingParams sampling = world.pool.calls().at(0).sampling();
  EXPECT_TRUE(sampling.grammar_acted());
  EXPECT_EQ(sampling.grammar().alternatives_size(), 1);
  EXPECT_FALSE(sampling.penalty_acted() || sampling.bias_acted());
  EXPECT_EQ(sampling.frequency_penalty(), 0);
  EXPECT_TRUE(sampling.logit_bias().empty());
  EXPECT_NE(world.gateway().MetricsText().find("ingot_gateway_flagged_calls_total 1"), std::string::npos);
}

// A fault of the expression or of a choice is one of the field that the client sent.
TEST(Grammar, NamesTheFieldThatTheEngineRejects) {
  World world([](const auto&) {
    Script script;
    script.error = base::FaultError({"grammar.alternatives[0].parts[0].regex", "the expression has a look-around"});
    return script;
  });
  const auto episode = world.Open();
  const auto param = [&](object fields) {
    object body = Body({Msg("user", "x")});
    for (auto& [name, field] : fields) body[name] = field;
    const absl::Status status = world.Chat(episode.api_key(), body).status;
    EXPECT_EQ(HttpStatusOf(status), 400) << status;
    return std::string(base::ParseJson(ErrorJson(status))->at("error").at("param").as_string());
  };
  EXPECT_EQ(param({{"structured_outputs", object{{"regex", "(?=a)"}}}}), "structured_outputs.regex");
  EXPECT_EQ(param({{"guided_choice", array{"a", "b"}}}), "guided_choice");
  EXPECT_EQ(param({{"guided_choice", array{"a", "b"}}, {"tools", CalculatorTools()}}), "tools");
}

// Fields about the end of an answer.
TEST(Sampling, HoldsToTheEndThatTheClientAsksFor) {
  World world([](const v1::GenerateRequest&) {
    Script script;
    script.text = "one!";
    script.end_of_turn = false;
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "x")});
  body["stop_token_ids"] = array{33};  // '!'
  body["min_tokens"] = 2;
  const auto first = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.message().at("content"), "one") << "the token that ends the answer is no text of it";
  v1::SamplingParams sampling = world.engine->requests().back().sampling();
  std::vector<int32_t> ends = TestFormat()->end_of_turn_ids();
  ends.insert(ends.begin(), 33);
  EXPECT_EQ(std::vector<int32_t>(sampling.stop_token_ids().begin(), sampling.stop_token_ids().end()), ends);
  EXPECT_EQ(sampling.min_new_tokens(), 2);
  EXPECT_TRUE(sampling.bias_acted()) << "what is drawn so is not trained on";
  EXPECT_FALSE(sampling.ignore_eos());
  body["include_stop_str_in_output"] = true;
  EXPECT_EQ(world.Chat(episode.api_key(), body).message().at("content"), "one!");
  object endless = Body({Msg("user", "x")});
  endless["ignore_eos"] = true;
  ASSERT_TRUE(world.Chat(episode.api_key(), endless).status.ok());
  sampling = world.engine->requests().back().sampling();
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_TRUE(sampling.stop_token_ids().empty());
  EXPECT_FALSE(sampling.bias_acted());
  body["stop_token_ids"] = array{TestTokenizer()->vocab_size()};
  const absl::Status status = world.Chat(episode.api_key(), body).status;
  EXPECT_EQ(HttpStatusOf(status), 400);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("'stop_token_ids'"));
}

TEST(ParallelCalls, EndTheTurnAfterTheFirstWhereTheyAreNotWanted) {
  // Prose and arguments may contain the text that ends a call.
  const std::string first =
      "A call ends with </tool_call>, say.\n<tool_call>\n{\"name\": \"add\", \"arguments\": "
      "{\"a\": \"</tool_call>\"}}\n</tool_call>";
  for (const bool stream : {false, true}) {
    World world([&](const v1::GenerateRequest&) {
      Script script;
      script.text = first + "\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>";
      return script;
    });
    const auto episode = world.Open();
    object body = Body({Msg("user", "x")});
    body["tools"] = CalculatorTools();
    body["parallel_tool_calls"] = false;
    body["stream"] = stream;
    const auto outcome = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(world.engine->requests()[0].sampling().stop_size(), 0);
    const v1::Call recorded = world.pool.calls().at(0);
    EXPECT_EQ(recorded.finish(), v1::FINISH_STOP);
    EXPECT_EQ(recorded.delivered_tokens(), static_cast<int>(TestTokenizer()->Encode(first, true).size()));
    if (stream) continue;
    EXPECT_EQ(outcome.message().at("tool_calls").as_array().size(), 1u);
    EXPECT_EQ(outcome.message().at("tool_calls").at(0).at("function").at("arguments"), R"({"a": "</tool_call>"})");
    EXPECT_EQ(outcome.events[0].at("choices").at(0).at("finish_reason"), "tool_calls");
    // Its turn lacks its end; what follows continues it all the same.
    body["messages"].as_array().push_back(outcome.message());
    body["messages"].as_array().push_back(Msg("tool", "3"));
    ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  }
}

TEST(SamplingOfAServedModel, NextToNothingMeansTheLikeliestToken) {
  World world([](const v1::GenerateRequest&) {
    Script script;
    script.text = "x";
    return script;
  });
  world.with_admission = false;
  const auto asked = [&](const char* field, double number) {
    object body = Body({Msg("user", "x")});
    body[field] = number;
    EXPECT_TRUE(world.Chat("key", body).status.ok());
    return world.engine->requests().back().sampling();
  };
  EXPECT_EQ(asked("temperature", 1e-8).temperature(), 0);
  EXPECT_EQ(asked("temperature", 0.5).temperature(), 0.5);
  const v1::SamplingParams none = asked("top_p", 0);
  EXPECT_EQ(none.top_k(), 1);
  EXPECT_EQ(none.top_p(), 1);
  EXPECT_EQ(asked("top_p", 0.9).top_k(), 0);
}

// A copy of the turn so far for each of its parts would take minutes.
TEST(Requests, ATurnOfManyPartsIsReadInOnePass) {
  struct Case {
    const char* dialect;
    std::string head, part, foot;
  };
  const std::string id(32, 'a');
  const std::string call = R"({"type":"function_call","call_id":"call_)" + id + R"(_0","name":"f","arguments":"{}"},)";
  const std::string result = R"({"type":"function_call_output","call_id":"call_)" + id + R"(_0","output":"r"},)";
  const std::string user = R"({"role":"user","content":"b"}]})";
  for (const Case& one : {Case{"messages", R"({"max_tokens":9,"messages":[{"role":"assistant","content":[)",
                               R"({"type":"text","text":"some of it"},)", R"({"type":"text","text":""}]},)" + user},
                          Case{"responses", R"({"input":[)", R"({"role":"assistant","content":"some of it"},)", user},
                          Case{"responses", R"({"input":[)", call, user},
                          Case{"responses", R"({"input":[)" + call, result, call + user}}) {
    constexpr int kParts = 60'000;
    std::string body = one.head;
    for (int i = 0; i < kParts; ++i) body += one.part;
    body += one.foot;
    const auto read = FindDialect(one.dialect)->Parse({.body = body, .headers = {}});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_GE(read->conversation.messages.size(), 2u);
  }
}

}  // namespace
}  // namespace ingot::gateway::dialect_request_test
