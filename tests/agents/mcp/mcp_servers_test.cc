#include "agents/mcp/mcp_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::agents {
namespace {

using testing::HasSubstr;
using testing::Not;

sandbox::Outcome Printed(const std::string& out, int code = 0) {
  sandbox::Outcome outcome;
  outcome.out = out;
  outcome.exit_code = code;
  return outcome;
}

std::string Fault(const sandbox::Outcome& outcome) {
  return std::string(CheckMcpAnswer(outcome, sandbox::Limits{}).message());
}

TEST(McpServersTest, WritesTheWordsOfEachScaffold) {
  const std::vector<StartedMcpServer> servers = {
      {.name = "time", .argv = {"/opt/time", "--zone", "a \"b\""}, .env = {{"KEY", "1\n2"}}, .start_timeout_s = 2.5},
      {.name = "plain", .argv = {"p"}, .env = {}, .start_timeout_s = 1}};
  const base::json::object mcp = McpConfigurations(servers);
  EXPECT_EQ(base::PrintJson(mcp.at("servers")),
            R"({"time":{"command":"/opt/time","args":["--zone","a \"b\""],"env":{"KEY":"1\n2"}},)"
            R"("plain":{"command":"p","args":[],"env":{}}})");
  EXPECT_EQ(base::PrintJson(mcp.at("opencode")),
            R"({"time":{"type":"local","command":["/opt/time","--zone","a \"b\""],"environment":{"KEY":"1\n2"},)"
            R"("enabled":true,"timeout":3000},"plain":{"type":"local","command":["p"],"environment":{},)"
            R"("enabled":true,"timeout":1000}})");
  EXPECT_EQ(std::string(mcp.at("codex").as_string()),
            "[mcp_servers.time]\ncommand = \"/opt/time\"\nargs = [\"--zone\", \"a \\\"b\\\"\"]\nstartup_timeout_sec = "
            "3\nrequired = true\n"
            "[mcp_servers.time.env]\n\"KEY\" = \"1\\n2\"\n"
            "[mcp_servers.plain]\ncommand = \"p\"\nargs = []\nstartup_timeout_sec = 1\nrequired = true\n");
}

TEST(McpServersTest, WritesAServerOverHttpInTheWordsOfEachScaffold) {
  const base::json::object mcp = McpConfigurations({{.name = "web",
                                                     .argv = {},
                                                     .url = "http://h/mcp",
                                                     .headers = {{"X-Key", "k\"1"}},
                                                     .env = {},
                                                     .start_timeout_s = 2}});
  EXPECT_EQ(base::PrintJson(mcp.at("servers")),
            R"({"web":{"type":"http","url":"http://h/mcp","headers":{"X-Key":"k\"1"}}})");
  EXPECT_EQ(base::PrintJson(mcp.at("gemini")), R"({"web":{"httpUrl":"http://h/mcp","headers":{"X-Key":"k\"1"}}})");
  EXPECT_EQ(base::PrintJson(mcp.at("opencode")),
            R"({"web":{"type":"remote","url":"http://h/mcp","headers":{"X-Key":"k\"1"},"oauth":false,"enabled":true,)"
            R"("timeout":2000}})");
  EXPECT_EQ(std::string(mcp.at("codex").as_string()),
            "[mcp_servers.web]\nurl = \"http://h/mcp\"\nstartup_timeout_sec = 2\nrequired = true\n"
            "[mcp_servers.web.http_headers]\n\"X-Key\" = \"k\\\"1\"\n");
}

using Texts = std::map<std::string, std::string>;

// The message with which a server is refused; empty = it is taken.
std::string Rejection(const std::vector<std::string>& command, const std::string& url, const Texts& headers = {},
                      const Texts& env = {}) {
  McpServerOptions options;
  options.name = "a";
  options.command = command;
  options.url = url;
  options.headers = headers;
  options.env = env;
  const auto parsed = ParseMcpServers({options}, {});
  if (!parsed.ok()) return std::string(parsed.status().message());
  return std::string(RenderMcpServers(*parsed, {}).status().message());
}

TEST(McpServersTest, RejectsAddressesThatCannotBeMeant) {
  EXPECT_EQ(Rejection({}, "https://h/mcp", {{"K", "v"}}), "");
  EXPECT_EQ(Rejection({"s"}, "http://127.0.0.1:80/mcp"), "");
  EXPECT_THAT(Rejection({}, ""), HasSubstr("set a command, a url, or both"));
  EXPECT_THAT(Rejection({}, "ftp://h"), HasSubstr("url ftp://h is not an http:// or https:// address"));
  for (const char* const url : {"https://user:secret@h/mcp", "http://secret@h", "secret@h/mcp"}) {
    EXPECT_THAT(Rejection({}, url), HasSubstr("mcp 'a': url contains a user name: put credentials in headers"));
    EXPECT_THAT(Rejection({}, url), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(Rejection({}, "https://h/@scope/mcp?to=a@b"), "");
  EXPECT_THAT(Rejection({"s"}, "http://h:80/"), HasSubstr("listens inside the sandbox"));
  EXPECT_THAT(Rejection({"s"}, "http://localhost:x/"), HasSubstr("has no valid port"));
  EXPECT_THAT(Rejection({"s"}, "http://localhost:7411/"), HasSubstr("the gateway's port"));
  EXPECT_THAT(Rejection({"s"}, "", {{"K", "v"}}), HasSubstr("headers need a url"));
  EXPECT_THAT(Rejection({}, "http://h", {}, {{"K", "v"}}), HasSubstr("env needs a command"));
}

TEST(McpServersTest, AnAnswerBesideOtherOutputBeginsTheSession) {
  EXPECT_TRUE(CheckMcpAnswer(Printed("starting\n{\"jsonrpc\":\"2.0\",\"method\":\"log\"}\n"
                                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
                                     1),
                             sandbox::Limits{})
                  .ok());
  sandbox::Outcome slow = Printed("{\"id\":1,\"result\":{}}\n");
  slow.ending = sandbox::Ending::kTimedOut;
  EXPECT_TRUE(CheckMcpAnswer(slow, sandbox::Limits{}).ok()) << "it answered, and outlived its input";
}

TEST(McpServersTest, NamesTheReasonOfAServerThatDoesNotStart) {
  EXPECT_THAT(Fault(Printed("{\"id\":2,\"result\":{}}\n")), HasSubstr("did not respond and exited with 0"));
  EXPECT_THAT(Fault(Printed("{\"id\":1,\"error\":{\"code\":-1,\"message\":\"too old\"}}\n")),
              HasSubstr("rejected `initialize`: too old"));
  sandbox::Outcome crashed = Printed("", 1);
  crashed.err = "Traceback\n  no module named x\n";
  EXPECT_THAT(Fault(crashed), HasSubstr("exited with 1; stderr ends: Traceback   no module named x"));
}

}  // namespace
}  // namespace ingot::agents
