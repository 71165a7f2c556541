// The shipped agent against a server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "agents/fake_episodes.h"
#include "agents/fake_openai.h"
#include "agents/runner.h"
#include "sandbox/process.h"
#include "sandbox/template.h"
#include "sandbox/test_sandbox.h"
#include "test_paths.h"

namespace ingot::agents::tool_agent_test {
namespace {

using base::json::value;
using testing::HasSubstr;

constexpr char kAgent[] = INGOT_SOURCE_DIR "/examples/agents/tool_agent.py";
constexpr char kTask[] = R"({"prompt":"item k7","tools":[{"type":"function","function":{"name":"lookup"}}],)"
                         R"("tables":{"lookup":{"k7":"C","k8":9}},"max_tokens":32})";

std::string Field(const value& json, const std::string& path) {
  const std::string text = base::PrintJson(json);
  const auto found = base::JsonText(text).At(path);
  return found.has_value() ? sandbox::AsText(*found) : "(none)";
}

// Lines of `python3 -X importtime`: one per imported module, below a heading.
int64_t ImportedModules(const std::string& err) {
  int64_t lines = 0;
  for (size_t at = 0; (at = err.find("import time:", at)) != std::string::npos; ++at) ++lines;
  return lines - 1;
}

// Runs the agent on `task`; the server answers the n-th request with the n-th message (a JSON text).
class ToolAgentTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ingot-tool-agent-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  sandbox::Outcome Run(const std::string& url, const std::string& task = kTask, std::vector<std::string> more = {}) {
    std::ofstream(folder_ + "/task.json") << task;
    sandbox::Command command;
    command.argv = {"/usr/bin/python3", "-I", "-S"};
    command.argv.insert(command.argv.end(), python_flags_.begin(), python_flags_.end());
    command.argv.insert(command.argv.end(), program_.begin(), program_.end());
    command.argv.push_back("task.json");
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    command.env = {{"OPENAI_BASE_URL", url}, {"OPENAI_API_KEY", "secret"}};
    command.working_dir = folder_;
    const auto outcome = sandbox::RunInSandbox(command);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : sandbox::Outcome{};
  }

  sandbox::Outcome RunWith(std::vector<std::string> messages, const std::string& task = kTask) {
    requests_.clear();
    FakeOpenAi server([&](const std::string& head, const value& body) {
      heads_.push_back(head);
      requests_.push_back(body);
      const size_t turn = std::min(requests_.size(), messages.size()) - 1;
      return FakeOpenAi::Reply(FakeOpenAi::Completion(messages[turn]));
    });
    const sandbox::Outcome outcome = Run(server.url(), task);
    connections_ = server.connections();
    return outcome;
  }

  static std::string Call(const std::string& function) {
    return R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":)" + function +
           "}]}";
  }

  std::string folder_;
  std::vector<std::string> python_flags_;
  std::vector<std::string> program_ = {kAgent};
  std::vector<std::string> heads_;
  std::vector<value> requests_;
  int connections_ = 0;
};

const std::string kLookup = R"({"name":"lookup","arguments":"{\"key\": \"k7\"}"})";
const std::string kFinal = R"({"role":"assistant","content":"F"})";

TEST_F(ToolAgentTest, CallsTheToolAndPrintsTheAnswerOverOneConnection) {
  const sandbox::Outcome outcome = RunWith({Call(kLookup), kFinal});
  EXPECT_EQ(outcome.out, "F\n");
  EXPECT_EQ(outcome.err, "");
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(connections_, 1);
  EXPECT_THAT(heads_[0], HasSubstr("POST /v1/chat/completions HTTP/1.1"));
  EXPECT_THAT(heads_[0], HasSubstr("Authorization: Bearer secret"));
  EXPECT_EQ(Field(requests_[0], "messages"), R"([{"role":"user","content":"item k7"}])");
  EXPECT_EQ(Field(requests_[0], "tools.0.function.name"), "lookup");
  EXPECT_EQ(Field(requests_[0], "max_tokens"), "32");
  // The next request repeats the assistant's message as it was sent, then the tool's result.
  EXPECT_EQ(Field(requests_[1], "messages.1"), base::PrintJson(*base::ParseJson(Call(kLookup))));
  EXPECT_EQ(Field(requests_[1], "messages.2"), R"({"role":"tool","tool_call_id":"c1","content":"C"})");
}

// With or without its compiled file, which only the source folder's owner can write.
TEST_F(ToolAgentTest, RunsFromItsCompiledFile) {
  namespace fs = std::filesystem;
  for (const char* const name : {"compiled.py", "tool_agent.py"})
    fs::copy(fs::path(kAgent).parent_path() / name, fs::path(folder_) / name);
  program_ = {folder_ + "/compiled.py", "tool_agent"};
  for (const char* const way : {"compiles it first", "reads the compiled file"}) {
    const sandbox::Outcome outcome = RunWith({Call(kLookup), kFinal});
    EXPECT_EQ(outcome.out, "F\n") << way << outcome.err;
    EXPECT_EQ(outcome.exit_code, 0) << way;
    EXPECT_EQ(requests_.size(), 2u) << way;
    EXPECT_TRUE(fs::exists(folder_ + "/__pycache__")) << way;
  }
  const sandbox::Outcome failed = Run("http://127.0.0.1:1/v1");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("tool_agent: "));
}

TEST_F(ToolAgentTest, GoesOnFromItsSessionWhereAnotherOneWasEnded) {
  const std::string task = std::string(kTask, sizeof(kTask) - 2) + R"(,"session":"session.json"})";
  EXPECT_EQ(RunWith({Call(kLookup), "null"}, task).exit_code, 1);  // ended by its second request
  ASSERT_EQ(requests_.size(), 2u);
  const std::string messages = Field(requests_[1], "messages");
  const sandbox::Outcome outcome = RunWith({kFinal}, task);
  EXPECT_EQ(outcome.out, "F\n") << outcome.err;
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(Field(requests_[0], "messages"), messages);
}

TEST_F(ToolAgentTest, ReportsTheModelWhatIsWrongWithACall) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"name":"lookup","arguments":"{\"key\": \"zz\"}"})", "error: not found"},
      {R"({"name":"lookup","arguments":"{\"key\": \"k8\"}"})", "9"},
      {R"({"name":"lookup","arguments":"{\"key\": \"k7\""})", "error: malformed call"},
      {R"({"name":"lookup","arguments":"{} x"})", "error: malformed call"},
      {R"({"name":"lookup","arguments":"NaN"})", "error: malformed call"},
      {R"({"name":"lookup","arguments":""})", "error: malformed call"},
      {R"({"name":"lookup","arguments":{"key":"k7"}})", "error: malformed call"},
      {R"({"name":"lookup"})", "error: malformed call"},
      {"null", "error: malformed call"},
      {"7", "error: malformed call"},
      {R"({"name":"lookup","arguments":"{}"})", "error: one argument expected"},
      {R"({"name":"lookup","arguments":"[1]"})", "error: one argument expected"},
      {R"({"name":"lookup","arguments":"{\"a\": 1, \"b\": 2}"})", "error: one argument expected"},
      {R"({"name":"lookup","arguments":"{\"key\": {\"deep\": [1]}}"})", "error: not found"},
      {R"({"name":"delete","arguments":"{\"key\": \"k7\"}"})", "error: no such tool"},
      {R"({"name":["x"],"arguments":"{\"key\": \"k7\"}"})", "error: no such tool"},
      {R"({"name":"lookup","arguments":")" + std::string(99999, '[') + "\"}", "error: malformed call"},
  };
  for (const auto& [function, result] : cases) {
    const sandbox::Outcome outcome = RunWith({Call(function), kFinal});
    EXPECT_EQ(outcome.out, "F\n") << function << outcome.err;
    ASSERT_EQ(requests_.size(), 2u) << function;
    EXPECT_EQ(Field(requests_[1], "messages.2.content"), result) << function;
  }
}

TEST_F(ToolAgentTest, SurvivesToolCallsThatAreNoObjects) {
  const sandbox::Outcome outcome =
      RunWith({R"({"role":"assistant","content":"","tool_calls":["x", 3, null]})", kFinal});
  EXPECT_EQ(outcome.out, "F\n") << outcome.err;
  EXPECT_EQ(Field(requests_[1], "messages.4.content"), "error: malformed call");
}

TEST_F(ToolAgentTest, GivesUpAfterItsTurns) {
  const sandbox::Outcome outcome = RunWith({Call(kLookup)});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "\n");
  EXPECT_EQ(requests_.size(), 3u);
}

TEST_F(ToolAgentTest, PrintsAnyTextAModelCanProduce) {
  EXPECT_EQ(RunWith({R"({"role":"assistant","content":"\u00e4\u20ac\ud83d\ude00"})"}).out, "\u00e4\u20ac\U0001f600\n");
  EXPECT_EQ(RunWith({R"({"role":"assistant","content":"a\u0000b\n"})"}).out, std::string("a\0b\n\n", 5));
  EXPECT_EQ(RunWith({R"({"role":"assistant","content":null})"}).out, "\n");
}

TEST_F(ToolAgentTest, ThePromptCanBeAnArgumentAndASystemMessageComesFirst) {
  std::string seen;
  FakeOpenAi server([&](const std::string&, const value& body) {
    seen = Field(body, "messages");
    return FakeOpenAi::Reply(FakeOpenAi::Completion(kFinal));
  });
  EXPECT_EQ(Run(server.url(), R"({"system":"be \"brief\""})", {"say \xc3\xa4"}).out, "F\n");
  server.Stop();
  EXPECT_EQ(seen, R"([{"role":"system","content":"be \"brief\""},{"role":"user","content":"say ä"}])");
}

TEST_F(ToolAgentTest, ReadsChunkedRepliesRepliesUntilCloseAndReconnects) {
  const std::string body = FakeOpenAi::Completion(kFinal);
  const std::string call = FakeOpenAi::Completion(Call(kLookup));
  int turn = 0;
  FakeOpenAi server([&](const std::string&, const value&) {
    switch (turn++) {
      case 0:
        return absl::StrCat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n", call.substr(0, 5), "\r\n",
                            absl::Hex(call.size() - 5), "\r\n", call.substr(5), "\r\n0\r\nTrailer: x\r\n\r\n");
      case 1:  // closes the kept connection: the agent asks again on a new one
        return std::string();
      default:
        return absl::StrCat("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body);
    }
  });
  const sandbox::Outcome outcome = Run(server.url());
  EXPECT_EQ(outcome.out, "F\n") << outcome.err;
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(ToolAgentTest, WaitsWhenTheServerIsBusy) {
  int turn = 0;
  FakeOpenAi server([&](const std::string&, const value&) {
    return turn++ < 2 ? FakeOpenAi::Reply("{}", "429 Too Many Requests", "Retry-After: 0\r\n")
                      : FakeOpenAi::Reply(FakeOpenAi::Completion(kFinal));
  });
  EXPECT_EQ(Run(server.url()).out, "F\n");
}

TEST_F(ToolAgentTest, AServerThatFailsEndsItWithOneClearLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {FakeOpenAi::Reply(R"({"error":{"message":"episode ended"}})", "410 Gone"), "the server answered 410"},
      {FakeOpenAi::Reply("<html>"), "not a chat completion"},
      {FakeOpenAi::Reply(R"({"choices":[]})"), "not a chat completion"},
      {FakeOpenAi::Reply("\xff\xfe"), "not a chat completion"},
      {FakeOpenAi::Reply(R"({"choices":[{"message":"hi"}]})"), "no message"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{", "closed the connection"},
      {"", "closed the connection"},
  };
  for (const auto& [reply, error] : cases) {
    FakeOpenAi server([&](const std::string&, const value&) { return reply; });
    const sandbox::Outcome outcome = Run(server.url());
    EXPECT_EQ(outcome.exit_code, 1) << reply;
    EXPECT_THAT(outcome.err, HasSubstr("tool_agent: ")) << reply;
    EXPECT_THAT(outcome.err, HasSubstr(error)) << reply;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(Run("http://127.0.0.1:1/v1").exit_code, 1);
  EXPECT_THAT(Run("").err, HasSubstr("OPENAI_BASE_URL"));
}

TEST_F(ToolAgentTest, AMistakeInTheTaskIsReportedToTheCaller) {
  for (const char* task : {"{", "[]", "{}", R"({"prompt":7})", "7"}) {
    EXPECT_EQ(Run("http://127.0.0.1:1/v1", task).exit_code, 2) << task;
  }
}

// A run pays the agent's start-up once per episode; the target is 25 ms of CPU, measured about 8 on one core of 2026's
// servers (compiled.py). Imports decide it (http.client alone: 25 ms), so the test counts modules: the agent may load a few beyond
// those of bare Python. `re` would add 19, http.client 72.
TEST_F(ToolAgentTest, ImportsAlmostNothingAndMakesOneRequestATurn) {
  python_flags_ = {"-X", "importtime"};
  const sandbox::Outcome outcome = RunWith({Call(kLookup), kFinal});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(requests_.size(), 2u);
  sandbox::Command bare;
  bare.argv = {"/usr/bin/python3", "-I", "-S", "-X", "importtime", "-c", "pass"};
  const auto bare_outcome = sandbox::RunInSandbox(bare);
  ASSERT_TRUE(bare_outcome.ok()) << bare_outcome.status();
  const int64_t bare_modules = ImportedModules(bare_outcome->err);
  ASSERT_GT(bare_modules, 0) << bare_outcome->err;
  EXPECT_LE(ImportedModules(outcome.err), bare_modules + 6) << outcome.err;
}

// The smoke recipe end to end, with the smoke tasks and a server that answers like a model that has learned the task.
TEST_F(ToolAgentTest, TheSmokeRecipeScoresARightAnswer) {
  std::ifstream tasks(INGOT_SOURCE_DIR "/examples/smoke/train.jsonl");
  std::string line;
  std::getline(tasks, line);
  const value task = *base::ParseJson(line);
  FakeOpenAi server([&](const std::string&, const value& body) {
    const auto& messages = body.get_object().at("messages").get_array();
    const std::string key = Field(body, "messages.0.content").substr(5);
    if (messages.size() == 1) {
      return FakeOpenAi::Reply(FakeOpenAi::Completion(
          Call(base::PrintJson({{"name", "lookup"}, {"arguments", "{\"key\": \"" + key + "\"}"}}))));
    }
    EXPECT_EQ(Field(body, "messages.2.content"), Field(task, "tables.lookup." + key));
    return FakeOpenAi::Reply(
        FakeOpenAi::Completion(base::PrintJson({{"role", "assistant"}, {"content", Field(task, "answer")}})));
  });
  RunnerOptions options;
  options.concurrency = 1;
  options.work_root = folder_ + "/work";
  RecipeOptions recipe;
  recipe.command = {"/usr/bin/python3", "-I", "-S", kAgent, "task.json"};
  recipe.files = {{"task.json", R"({"prompt":"${task.prompt}","tools":${task.tools},"tables":${task.tables}})"}};
  recipe.env = {{"OPENAI_BASE_URL", server.url()}};
  options.recipes = {recipe};
  FakeEpisodes episodes(3, line);
  auto runner = Runner::Make(options, sandbox::SharedUidSubstrate(options.work_root), episodes, base::Clock::Real());
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->Start().ok());
  ASSERT_TRUE((*runner)->WaitDone(std::chrono::seconds(60)));
  EXPECT_EQ((*runner)->Stats().finished, 3);
  EXPECT_EQ((*runner)->Stats().reward_sum, 3) << (episodes.ends().empty() ? "" : episodes.ends()[0].detail());
}

}  // namespace
}  // namespace ingot::agents::tool_agent_test
