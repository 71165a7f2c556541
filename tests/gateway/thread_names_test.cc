// The conversation that a request names, in every place where clients name it.
#include "gateway/api/thread_names.h"

#include <gtest/gtest.h>

#include "gateway/api/role_name.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

using HeaderList = std::vector<std::pair<const char*, const char*>>;

std::pair<std::string, std::string> ThreadOf(const HeaderList& list, const char* body_json) {
  Headers headers;
  for (const auto& [name, text] : list) headers.Add(name, text);
  const value json = base::ParseJson(body_json).value();
  Fields body(json);
  GatewayRequest request;
  ReadThread(headers, body, request);
  EXPECT_TRUE(body.status().ok()) << body.status();
  return {request.branch, request.parent_branch};
}

TEST(ThreadNames, AreReadFromTheHeadersOfEachClient) {
  struct Case {
    HeaderList headers;
    const char* branch;
    const char* parent;
  };
  const Case cases[] = {
      // OpenCode
      {{{"X-Session-Id", "ses_1"}}, "ses_1", ""},
      {{{"x-session-id", "ses_2"}, {"x-parent-session-id", "ses_1"}}, "ses_2", "ses_1"},
      {{{"x-session-affinity", "ses_2"}, {"x-parent-session-id", "ses_1"}}, "ses_2", "ses_1"},
      {{{"x-opencode-session", "ses_3"}, {"x-opencode-request", "msg_1"}}, "ses_3", ""},
      // Codex
      {{{"session-id", "s"}}, "s", ""},
      {{{"session-id", "s"}, {"thread-id", "s"}}, "s", ""},
      {{{"session-id", "s"}, {"thread-id", "t"}}, "t", ""},
      {{{"session-id", "s"},
        {"thread-id", "t"},
        {"x-codex-parent-thread-id", "m"},
        {"x-openai-subagent", "collab_spawn"}},
       "t",
       "m"},
      {{{"session-id", "s"}, {"thread-id", "t"}, {"x-openai-subagent", "review"}}, "t", "s"},
      {{{"session-id", "s"}, {"thread-id", "s"}, {"x-openai-subagent", "compact"}}, "s/compact", "s"},
      {{{"session-id", "s"}, {"x-openai-subagent", "review"}}, "s/review", "s"},
      {{{"conversation_id", "s"}, {"session_id", "s"}}, "s", ""},
      {{{"session_id", "s"}, {"x-openai-subagent", "review"}}, "s/review", "s"},
      // Claude Code
      {{{"x-claude-code-session-id", "c"}}, "c", ""},
      {{{"x-claude-code-session-id", "c"}, {"x-claude-code-agent-id", "a"}}, "a", "c"},
      {{{"x-claude-code-session-id", "c"}, {"x-claude-code-agent-id", "b"}, {"x-claude-code-parent-agent-id", "a"}},
       "b",
       "a"},
      // pi
      {{{"session_id", "p"}, {"x-client-request-id", "p"}, {"x-session-affinity", "p"}}, "p", ""},
      {{{"x-session-affinity", "p"}}, "p", ""},
      // Others
      {{{"X-LiteLLM-Session-Id", "l"}}, "l", ""},
      {{{"x-dynamo-session-id", "child"}, {"x-dynamo-parent-session-id", "root"}}, "child", "root"},
      {{{"agent-session-id", "g"}}, "g", ""},
      {{{"x-affinity", "v"}}, "v", ""},
      // Names of a request, of a machine or of nothing
      {{{"x-irid", "r"}}, "", ""},
      {{{"x-client-request-id", "r"}}, "", ""},
      {{{"x-gemini-api-privileged-user-id", "machine"}}, "", ""},
      {{{"x-openai-subagent", "review"}}, "", ""},
      {{}, "", ""},
  };
  for (const Case& one : cases) {
    const auto expected = std::pair<std::string, std::string>(one.branch, one.parent);
    EXPECT_EQ(ThreadOf(one.headers, "{}"), expected) << (one.headers.empty() ? "" : one.headers[0].first);
  }
}

TEST(ThreadNames, AreReadFromTheBody) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt_cache_key":"k"})", "k"},
      {R"({"litellm_session_id":"l"})", "l"},
      {R"({"session_id":"o"})", "o"},
      {R"({"metadata":{"session_id":"m"}})", "m"},
      {R"({"metadata":{"user_id":"user_5dd0_account__session_d2e70091-3007"}})", "d2e70091-3007"},
      {R"({"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"2c4e-1\"}"}})", "2c4e-1"},
      {R"({"user":"user_5dd0_account_7_session_d2e7"})", "d2e7"},
      // No conversation's names
      {R"({"user":"alice"})", ""},
      {R"({"metadata":{"user_id":"alice_session_1"}})", ""},
      {R"({"metadata":{"user_id":"user_a_session_b c"}})", ""},
      {R"({"metadata":{"user_id":"{\"session_id\":7}"}})", ""},
      {R"({"metadata":{"user_id":"{"}})", ""},
      {R"({"prompt_cache_key":7,"session_id":["x"],"metadata":{"session_id":{}}})", ""},
      {R"({"metadata":{"user_id":"user_a_session_"},"prompt_cache_key":"k"})", "k"},
  };
  for (const auto& [body, branch] : cases) EXPECT_EQ(ThreadOf({}, body).first, branch) << body;
}

// All threads of a client share its session, and `ingot serve` records by session.
TEST(ThreadNames, SayWhichSessionTheyAreOf) {
  const auto session_of = [](const HeaderList& list, const char* body_json) {
    Headers headers;
    for (const auto& [name, text] : list) headers.Add(name, text);
    const value json = base::ParseJson(body_json).value();
    Fields body(json);
    GatewayRequest request;
    ReadThread(headers, body, request);
    return request.session;
  };
  const std::pair<const char*, const char*> session = {"x-claude-code-session-id", "s"};
  EXPECT_EQ(session_of({session}, "{}"), "s");
  EXPECT_EQ(session_of({session, {"x-claude-code-agent-id", "a"}}, "{}"), "s");
  EXPECT_EQ(session_of({session, {"x-claude-code-agent-id", "b"}, {"x-claude-code-parent-agent-id", "a"}}, "{}"), "s");
  EXPECT_EQ(session_of({{"x-session-id", "child"}, {"x-parent-session-id", "parent"}}, "{}"), "parent");
  EXPECT_EQ(session_of({}, R"({"session_id":"o"})"), "o");
  EXPECT_EQ(session_of({}, R"({"metadata":{"branch":"own"}})"), "own");
  EXPECT_EQ(session_of({}, "{}"), "");
}

// From the gateway's own field over headers to the key of a cache, which several conversations may share.
TEST(ThreadNames, HaveAnOrder) {
  HeaderList headers = {{"x-litellm-session-id", "5"}, {"x-session-affinity", "4"},
                        {"session_id", "3"},           {"thread-id", "2"},
                        {"x-session-id", "1"},         {"x-claude-code-session-id", "0"}};
  const char* const body = R"({"prompt_cache_key":"8","metadata":{"session_id":"6","user_id":"user_a_session_7"}})";
  EXPECT_EQ(ThreadOf(headers, R"({"metadata":{"branch":"own","session_id":"6"}})").first, "own");
  for (int place = 0; !headers.empty(); ++place) {
    EXPECT_EQ(ThreadOf(headers, body).first, std::to_string(place));
    headers.pop_back();
  }
  EXPECT_EQ(ThreadOf({}, body).first, "6");
  EXPECT_EQ(ThreadOf({}, R"({"prompt_cache_key":"8","metadata":{"user_id":"user_a_session_7"}})").first, "7");
}

TEST(RoleNames, AreReadFromTheBodyThenTheHeader) {
  const auto role_of = [](const HeaderList& list, const char* body_json) {
    Headers headers;
    for (const auto& [name, text] : list) headers.Add(name, text);
    const value json = base::ParseJson(body_json).value();
    Fields body(json);
    GatewayRequest request;
    ReadRole(headers, body, request);
    return request.role;
  };
  EXPECT_EQ(role_of({}, "{}"), "");
  EXPECT_EQ(role_of({{"X-Ingot-Role", "white"}}, "{}"), "white");
  EXPECT_EQ(role_of({{"x-ingot-role", "white"}}, R"({"metadata":{"ingot_role":"black"}})"), "black");
  EXPECT_EQ(role_of({{"x-ingot-role", "white"}}, R"({"metadata":{"ingot_role":7}})"), "white");
  EXPECT_EQ(role_of({{"x-ingot-role", "a\x01"}}, "{}"), R"(a\x01)");
  EXPECT_EQ(role_of({{"x-ingot-role", std::string(300, 'x').c_str()}}, "{}").size(), 256u);
}

TEST(RoleNames, AreTakenOffAKey) {
  std::string key = "k-1:role=white";
  EXPECT_EQ(TakeRole(key), "white");
  EXPECT_EQ(key, "k-1");
  EXPECT_EQ(TakeRole(key), "");
  EXPECT_EQ(key, "k-1") << "a key without a role stays as it is";
}

TEST(ThreadNames, AreCutAndPrintable) {
  const std::string longest(300, 'x');
  EXPECT_EQ(ThreadOf({{"x-session-id", longest.c_str()}}, "{}").first.size(), 256u);
  EXPECT_EQ(ThreadOf({{"x-session-id", "a\x01\xff"}}, "{}").first, R"(a\x01\xff)");
  EXPECT_EQ(ThreadOf({}, ("{\"prompt_cache_key\":\"" + longest + "\"}").c_str()).first.size(), 256u);
}

// Agents behind one key: each call is recorded under the conversation that its client named.
TEST(ThreadNames, TellConversationsOfOneKeyApartInTheRecord) {
  World world([](const auto&) {
    Script script;
    script.text = "ok";
    return script;
  });
  const auto episode = world.Open();
  const std::pair<const char*, const char*> asked[] = {
      {"chat.completions", R"({"messages":[{"role":"user","content":"x"}],"prompt_cache_key":"one"})"},
      {"responses", R"({"input":"x","prompt_cache_key":"two"})"},
      {"messages",
       R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"user_a_session_three"}})"},
      {"completions", R"({"prompt":"x","session_id":"four"})"}};
  for (const auto& [dialect, body] : asked) {
    ASSERT_TRUE(world.Ask(dialect, episode.api_key(), body).status.ok()) << dialect;
  }
  std::vector<std::string> branches;
  for (const v1::Call& call : world.pool.calls()) branches.push_back(call.branch());
  EXPECT_EQ(branches, (std::vector<std::string>{"one", "two", "three", "four"}));
}

// Two conversations of one key with equal messages so far: each goes on with its own calls, in every turn.
TEST(ThreadNames, DecideBetweenEqualHistories) {
  for (const bool stream : {false, true}) {
    for (const bool restarts : {false, true}) {
      World world([](const v1::GenerateRequest&) {
        Script script;
        script.text = "an answer";
        return script;
      });
      const auto episode = world.Open();
      const auto ask = [&](const std::string& thread, const base::json::array& messages) {
        Headers headers;
        headers.Add("x-session-affinity", thread);
        base::json::object body = Body(messages);
        body["stream"] = stream;
        ASSERT_TRUE(world.Ask("chat.completions", episode.api_key(), base::PrintJson(body), headers).status.ok());
      };
      base::json::array messages = {Msg("user", "x")};
      for (int turn = 0; turn < 3; ++turn) {
        for (const char* thread : {"one", "two"}) ask(thread, messages);
        EXPECT_TRUE(!restarts || world.Restart().ok());
        // In the last turn, the clients kept a part of the answer.
        messages.push_back(Msg("assistant", stream && turn == 1 ? "an ans" : "an answer"));
        messages.push_back(Msg("user", "y"));
        if (restarts && turn == 0 && stream) break;  // what was streamed is not recorded
      }
      const auto calls = world.pool.calls();
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(calls[i].branch(), i % 2 == 0 ? "one" : "two");
        EXPECT_EQ(calls[i].parent_call_id(), i < 2 ? "" : calls[i - 2].call_id()) << i << calls[i].fork_cause();
        EXPECT_EQ(calls[i].fork_cause(), i == 1 ? kForkNewConversation : "") << i;
      }
      // A thread that nothing is known of goes on with the newest call.
      if (stream) continue;
      ask("three", messages);
      EXPECT_EQ(world.pool.calls().back().parent_call_id(), calls.back().call_id());
    }
  }
}

}  // namespace
}  // namespace ingot::gateway
