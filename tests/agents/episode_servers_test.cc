// MCP servers over HTTP in whole episodes, in sandboxes with a network of their own.
#include "agents/episode_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agents/episode_run.h"
#include "http/server.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Answers `initialize`, and any other request with its header X-Key.
constexpr char kServer[] = R"(
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"key": self.headers.get("X-Key")}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
print("serves", file=sys.stderr, flush=True)
http.server.HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
)";

// Calls the server `all` of the configuration, and prints the key that it was shown.
constexpr char kAgent[] = R"(
import json, urllib.request
server = json.load(open("mcp.json"))["all"]
request = urllib.request.Request(server["url"], json.dumps({"id": 7, "method": "tools/call"}).encode(),
                                 {"Content-Type": "application/json", **server["headers"]})
answer = json.load(urllib.request.urlopen(request))
print(json.dumps([answer["result"]["key"], server["headers"]]))
)";

class EpisodeServersTest : public testing::Test {
 protected:
  EpisodeServersTest() {
    sandbox::SubstrateOptions options;
    options.work_root = folder_.path();
    substrate_ = sandbox::LocalSubstrate::Make(options).value();
    recipe_.command = {"/usr/bin/python3", "-I", "-c", kAgent};
    recipe_.files = {{"mcp.json", "${mcp.servers}"}, {"server.py", kServer}};
    recipe_.verifier.kind = "exact";
    recipe_.verifier.expected = "unknown";
    server_.name = "all";
    server_.headers = {{"X-Key", "key-${task_id}"}};
    server_.start_timeout_s = 60;
  }

  EpisodeReport Run() {
    if (!server_.command.empty() || !server_.url.empty()) recipe_.mcp = {server_};
    v1::EpisodeOpenResponse episode;
    episode.set_episode_id("e");
    episode.mutable_task()->set_task_id("t1");
    EpisodeContext context;
    context.substrate = substrate_.get();
    context.mcp = bridge_.get();
    context.may_keep = [] { return false; };
    return RunEpisode(**Recipe::Make(recipe_), episode, context);
  }

  const sandbox::TestFolder folder_;
  std::unique_ptr<sandbox::LocalSubstrate> substrate_;
  const std::unique_ptr<McpBridge> bridge_ = McpBridge::Make().value();
  RecipeOptions recipe_;
  McpServerOptions server_;
};

TEST_F(EpisodeServersTest, AServerInsideTheSandboxAnswersTheAgent) {
  if (!substrate_->probe_result().own_network) GTEST_SKIP() << "not granted";
  server_.command = {"/usr/bin/python3", "-I", "server.py"};
  server_.url = "http://127.0.0.1:8123/mcp";
  recipe_.verifier.expected = R"(["key-t1", {"X-Key": "key-t1"}])";
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 1) << report.detail;
}

TEST_F(EpisodeServersTest, AServerThatEndsOrIsSilentFailsTheEpisodeByName) {
  if (!substrate_->probe_result().own_network) GTEST_SKIP() << "not granted";
  server_.url = "http://127.0.0.1:8123/mcp";
  server_.command = {"/bin/sh", "-c", "echo no port is free >&2; exit 3"};
  EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, AllOf(HasSubstr("the MCP server 'all' (/bin/sh) did not start: its program has ended"),
                                   HasSubstr("its output ends: no port is free")));
  server_.command = {"/bin/sleep", "1000"};
  server_.start_timeout_s = 0.2;
  report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("no response within 0.2 s"));
  server_.command = {"/no/such/server"};
  report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("cannot execute '/no/such/server'"));
}

// A service listens where the agent finds it, and answers nothing but GET.
TEST_F(EpisodeServersTest, AServiceRunsBesideTheAgentAndEndsWithIt) {
  if (!substrate_->probe_result().own_network) GTEST_SKIP() << "not granted";
  recipe_.files = {{"served/item", "${task_id}"}};
  recipe_.services = {{.name = "files",
                       .command = {"/usr/bin/python3", "-I", "-m", "http.server", "--bind", "127.0.0.1", "--directory",
                                   "served", "8124"},
                       .url = "http://127.0.0.1:8124/"}};
  const std::string get =
      "import urllib.request, sys; print(urllib.request.urlopen('http://127.0.0.1:8124/item').read().decode())";
  recipe_.command = {"/usr/bin/python3", "-I", "-c", get};
  recipe_.verifier.expected = "t1";
  EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 1) << report.detail;
  // The verifier finds it gone.
  recipe_.verifier = {};
  recipe_.verifier.kind = "command";
  recipe_.verifier.command = {"/usr/bin/python3", "-I", "-c", get};
  report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 0) << report.detail;
  // One that has nothing to say yet is waited for, and named if it stays so.
  recipe_.services[0].command = {"/bin/sh", "-c", "echo loading; exec sleep 1000"};
  recipe_.services[0].start_timeout_s = 1.5;
  report = Run();
  EXPECT_EQ(report.cause, "service");
  EXPECT_THAT(report.detail, AllOf(HasSubstr("the service 'files' (/bin/sh) did not start: no response within 1.5 s"),
                                   HasSubstr("its output ends: loading")));
  sandbox::ProbeResult probe_result;
  EXPECT_THAT(std::string(CheckServersReach(recipe_, probe_result).message()),
              HasSubstr("the service 'files' listens inside the sandbox, which needs its own network"));
  recipe_.services[0].url = "";
  EXPECT_THAT(std::string(Recipe::Make(recipe_).status().message()),
              HasSubstr("services 'files': set a command and its url"));
  recipe_.services[0].url = "https://elsewhere/";
  EXPECT_THAT(Run().detail,
              HasSubstr("services 'files': url https://elsewhere/ must begin with http://127.0.0.1:PORT"));
}

// A server outside sandboxes that shows what it was asked with.
class Elsewhere final : public http::Handler {
 public:
  Elsewhere() {
    http::Options options;
    options.port = 0;
    server_ = http::Server::Listen(options, *this).value();
    server_->Serve();
  }
  http::Opening Head(http::RequestHead head) override {
    const std::string key(head.Find("x-key"));
    return {.exchange = http::MakeExchange([key](const std::string& body) {
              const std::string id = body.find("initialize") != std::string::npos ? "1" : "7";
              return http::Reply{
                  .body = absl::StrCat(R"({"jsonrpc":"2.0","id":)", id, R"(,"result":{"key":")", key, R"("}})")};
            })};
  }
  std::string url() const { return server_->url() + "/mcp"; }

 private:
  std::unique_ptr<http::Server> server_;
};

TEST_F(EpisodeServersTest, AServerElsewhereIsReachedAndItsKeyStaysOutside) {
  if (!substrate_->probe_result().own_network) GTEST_SKIP() << "not granted";
  const Elsewhere elsewhere;
  server_.url = elsewhere.url();
  recipe_.verifier.expected = R"(["key-t1", {}])";
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 1) << report.detail;
}

TEST_F(EpisodeServersTest, AServerElsewhereThatNobodyReachesFailsTheEpisodeByName) {
  server_.url = "http://127.0.0.1:1/mcp?key=secret";
  server_.start_timeout_s = 0.2;
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("the MCP server 'all' (127.0.0.1) did not start: no response within 0.2 s"));
  EXPECT_THAT(report.detail, Not(HasSubstr("secret")));
}

TEST_F(EpisodeServersTest, AServerElsewhereThatCannotBeAskedFailsTheEpisodeAtOnce) {
  server_.url = "http://127.0.0.1:1/mcp";
  server_.headers = {{"X Key", "v"}};
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("'X Key' is not a valid header name"));
  EXPECT_THAT(report.detail, Not(HasSubstr("no response within"))) << "it is not asked again";
}

TEST_F(EpisodeServersTest, SandboxesThatCannotHaveAServerRejectTheRecipeByName) {
  server_.command = {"server"};
  server_.url = "http://127.0.0.1:8123/mcp";
  recipe_.mcp = {server_};
  sandbox::ProbeResult probe_result;
  EXPECT_THAT(std::string(CheckServersReach(recipe_, probe_result).message()),
              HasSubstr("'all' listens inside the sandbox"));
  recipe_.mcp[0].command.clear();
  EXPECT_TRUE(CheckServersReach(recipe_, probe_result).ok()) << "sandboxes share the machine's network";
  probe_result.landlock = 4;
  EXPECT_THAT(std::string(CheckServersReach(recipe_, probe_result).message()), HasSubstr("sandboxes cannot reach"));
  probe_result.own_network = true;
  EXPECT_TRUE(CheckServersReach(recipe_, probe_result).ok());
}

}  // namespace
}  // namespace ingot::agents
