// A conversation of Claude Code over HTTP, in the shape of its requests that public captures show (version 2.1.69): its
// headers and query, a first system block that changes, cached blocks whose marks wander, adaptive thinking, edits of the
// context, token counts and sub-agents. The product itself takes no part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "gateway/clients.h"
#include "gateway/site.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using ::testing::HasSubstr;
using ::testing::Not;

object Cached(object block) {
  block["cache_control"] = object{{"type", "ephemeral"}};
  return block;
}

object Text(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

object Tool(const std::string& name, const char* parameters) {
  return {{"name", name}, {"description", "Does it."}, {"input_schema", base::ParseJson(parameters).value()}};
}

// Thinks and calls Bash, then Bash twice, then answers. A sub-agent's first answer has the same history as nobody's.
Script Author(const v1::GenerateRequest& request) {
  const std::vector<int32_t> ids(request.prompt_ids().begin(), request.prompt_ids().end());
  const std::string prompt = TestTokenizer()->Decode(ids, false);
  const auto call = [](const std::string& command) {
    return "\n<tool_call>\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"" + command +
           "\", \"description\": \"Runs it\"}}\n</tool_call>";
  };
  Script script;
  if (prompt.find("You are a search agent.") != std::string::npos) {
    script.text = "Found.";
  } else if (prompt.find("\nzebra7") != std::string::npos) {
    script.text = "It says zebra7.";
  } else if (prompt.find("<tool_response>") != std::string::npos) {
    script.text = "Now both." + call("ls") + call("cat made.txt");
  } else {
    script.text = "<think>\nA file is wanted.\n</think>\n\nI make it." + call("echo zebra7 > made.txt");
  }
  return script;
}

class ClaudeCode {
 public:
  explicit ClaudeCode(Site& site) : site_(site), episode_(site.Open()) {}

  // The events of a stream; a client's own reading of its answer goes into the history.
  World::Outcome Ask(const std::string& agent = "") {
    World::Outcome outcome;
    const Response response = Send("/v1/v1/messages?beta=true", Body(true), agent);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_THAT(response.headers.at("content-type"), HasSubstr("text/event-stream"));
    for (size_t at = 0; (at = response.body.find("data: ", at)) != std::string::npos;) {
      const size_t end = response.body.find('\n', at);
      outcome.events.push_back(base::ParseJson(response.body.substr(at + 6, end - at - 6)).value());
      at = end;
    }
    return outcome;
  }
  int64_t Count() {
    object body = Body(false);
    for (const char* absent : {"max_tokens", "metadata", "stream", "context_management"}) body.erase(absent);
    const Response response = Send("/v1/v1/messages/count_tokens?beta=true", body, "");
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json().at("input_tokens").as_int64();
  }
  // Its probe of a server: the smallest of answers, not streamed, from the small model.
  Response Probe() {
    return Send("/v1/v1/messages?beta=true",
                {{"model", "ingot"},
                 {"max_tokens", 1},
                 {"messages", array{object{{"role", "user"}, {"content", "quota"}}}},
                 {"metadata", object{{"user_id", UserId()}}}},
                "");
  }
  Response Knock() {
    Wire wire(site_.server().port());
    wire.Send(Request("HEAD", Path("/v1"), "", ""));
    return Read(wire, true);
  }

  array history = {object{{"role", "user"},
                          {"content", array{Text("<system-reminder>\nThe date is today.\n</system-reminder>"),
                                            Cached(Text("Make the file made.txt."))}}}};
  std::string system = "You are Claude Code, a coding agent.";

 private:
  std::string Path(const std::string& path) const { return "/s/" + episode_.episode_id() + path; }
  static std::string UserId() {
    return R"({"device_id":"d0","account_uuid":"","session_id":"b4e5aaaa-9a3e-47c4-84ad-3a70f38c676e"})";
  }

  object Body(bool stream) {
    const std::string build =
        "x-anthropic-billing-header: cc_version=2.1.69." + std::to_string(++asked_) + "; cc_entrypoint=sdk-cli;";
    return {
        {"model", "ingot"},
        {"messages", history},
        {"system", array{Text(build), Cached(Text(system)), Cached(Text("# Tone\nBe brief."))}},
        {"tools", array{Tool("Bash", R"({"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
                                            "properties":{"command":{"type":"string"},"timeout":{"type":"number"},
                                            "description":{"type":"string"}},"required":["command"],
                                            "additionalProperties":false})"),
                        Cached(Tool("Read", R"({"type":"object","properties":{"file_path":{"type":"string"}},
                                                    "required":["file_path"]})"))}},
        {"metadata", object{{"user_id", UserId()}}},
        {"max_tokens", 32000},
        {"thinking", object{{"type", "adaptive"}}},
        {"context_management", object{{"edits", array{object{{"type", "clear_thinking_20251015"}, {"keep", "all"}}}}}},
        {"output_config", object{{"effort", "medium"}}},
        {"stream", stream}};
  }
  Response Send(const std::string& path, const object& body, const std::string& agent) {
    std::string more =
        "Content-Type: application/json\r\nAccept: application/json\r\nanthropic-version: 2023-06-01\r\n"
        "anthropic-beta: claude-code-20250219,adaptive-thinking-2026-01-28,context-management-2025-06-27,"
        "prompt-caching-scope-2026-01-05,effort-2025-11-24\r\nanthropic-dangerous-direct-browser-access: true\r\n"
        "x-app: cli\r\nUser-Agent: claude-cli/2.1.69 (external, sdk-cli)\r\nX-Stainless-Retry-Count: 0\r\n"
        "X-Stainless-Timeout: 600\r\nX-Stainless-Lang: js\r\nx-claude-code-session-id: b4e5aaaa\r\n";
    if (!agent.empty()) more += "x-claude-code-agent-id: " + agent + "\r\n";
    Wire wire(site_.server().port());
    wire.Send(Request("POST", Path(path), base::PrintJson(body), episode_.api_key(), more));
    return Read(wire);
  }

  Site& site_;
  const v1::EpisodeOpenResponse episode_;
  int asked_ = 0;
};

// Results as text blocks, the last one with the mark, which goes from where it was.
void Return(array& history, const std::vector<std::string>& results) {
  for (value& message : history) {
    if (!message.at("content").is_array()) continue;
    for (value& block : message.at("content").as_array()) block.as_object().erase("cache_control");
  }
  array blocks;
  const array& called = history.back().at("content").as_array();
  for (const value& block : called) {
    if (block.at("type") != "tool_use") continue;
    blocks.push_back(object{{"tool_use_id", block.at("id")},
                            {"type", "tool_result"},
                            {"content", array{Text(results.at(blocks.size()))}},
                            {"is_error", false}});
  }
  blocks.back() = Cached(blocks.back().as_object());
  history.push_back(object{{"role", "user"}, {"content", blocks}});
}

TEST(ClaudeCode, ContinuesItsSampledIdsOverAWholeConversation) {
  Site site(Author);
  site.options.model_name = "ingot";
  ClaudeCode client(site);
  EXPECT_EQ(client.Knock().status, 200);
  EXPECT_EQ(client.Probe().status, 200);
  const auto keep = [&](const World::Outcome& outcome) {
    const array content = CollectMessages(outcome);
    client.history.push_back(object{{"role", "assistant"}, {"content", content}});
    return content;
  };

  const int64_t counted = client.Count();
  const World::Outcome first = client.Ask();
  const value& usage = first.events.at(0).at("message").at("usage");
  EXPECT_EQ(usage.at("input_tokens").as_int64() + usage.at("cache_read_input_tokens").as_int64(), counted);
  const array thought = keep(first);
  ASSERT_EQ(thought.size(), 3u) << base::PrintJson(thought);
  EXPECT_EQ(thought[0].at("type").as_string(), "thinking");
  EXPECT_THAT(std::string(thought[0].at("thinking").as_string()), HasSubstr("A file is wanted."));
  EXPECT_NE(thought[0].at("signature").as_string(), "") << "it sends thinking back with the signature";
  EXPECT_EQ(thought[2].at("input").at("command").as_string(), "echo zebra7 > made.txt");
  EXPECT_EQ(first.events.back().at("type").as_string(), "message_stop");

  Return(client.history, {""});
  const array both = keep(client.Ask());
  ASSERT_EQ(both.size(), 3u) << base::PrintJson(both);
  Return(client.history, {"made.txt", "zebra7"});
  const array last = keep(client.Ask());
  EXPECT_EQ(last.at(0).at("text").as_string(), "It says zebra7.");

  const auto status = site.gateway().Status();
  EXPECT_EQ(status.spliced_calls(), 2) << "each turn goes on from the ids of the one before";
  EXPECT_EQ(status.forks().size(), 1u) << status.DebugString();
  EXPECT_EQ(status.forks().at("new_conversation"), 1) << "the probe and the conversation are two";
  const auto& calls = site.pool.calls();
  ASSERT_EQ(calls.size(), 4u) << "the probe and three turns; counts are no calls";
  for (size_t i = 2; i < 4; ++i) EXPECT_EQ(calls[i].parent_call_id(), calls[i - 1].call_id());
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(calls[i].branch(), "b4e5aaaa");
  const std::string prompt = TestTokenizer()->Decode(site.pool.PromptOf(calls[3]), false);
  EXPECT_THAT(prompt, Not(HasSubstr("x-anthropic-billing-header")));
  for (const char* part : {"You are Claude Code, a coding agent.\n\n# Tone\nBe brief.", "A file is wanted.", "\"Read\"",
                           "<system-reminder>\nThe date is today.\n</system-reminder>\nMake the file made.txt."}) {
    EXPECT_THAT(prompt, HasSubstr(part));
  }

  // A sub-agent of the same session is a thread of its own.
  client.system = "You are a search agent.";
  client.history = {object{{"role", "user"}, {"content", array{Cached(Text("Find it."))}}}};
  EXPECT_EQ(keep(client.Ask("agent-7")).at(0).at("text").as_string(), "Found.");
  EXPECT_EQ(site.pool.calls().back().branch(), "agent-7");
  EXPECT_EQ(site.pool.calls().back().parent_branch(), "b4e5aaaa");
}

}  // namespace
}  // namespace ingot::gateway
