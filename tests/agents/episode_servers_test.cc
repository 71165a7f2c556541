// MCP servers over HTTP in whole episodes, in rooms with a network of their own.
#include "agents/episode_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agents/episode_run.h"
#include "http/server.h"
#include "sandbox/test_room.h"

namespace ingot::agents {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
    recipe_.mcp = {server_};
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

TEST_F(EpisodeServersTest, AServerInsideTheRoomAnswersTheAgent) {
  if (!substrate_->grant().own_network) GTEST_SKIP() << "not granted";
  server_.command = {"/usr/bin/python3", "-I", "server.py"};
  server_.url = "http://127.0.0.1:8123/mcp";
  recipe_.verifier.expected = R"(["key-t1", {"X-Key": "key-t1"}])";
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 1) << report.detail;
}

TEST_F(EpisodeServersTest, AServerThatEndsOrIsSilentFailsTheEpisodeByName) {
  if (!substrate_->grant().own_network) GTEST_SKIP() << "not granted";
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
  EXPECT_THAT(report.detail, HasSubstr("no answer within 0.2 s"));
  server_.command = {"/no/such/server"};
  report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("cannot execute '/no/such/server'"));
}

// A server outside rooms that shows what it was asked with.
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
  if (!substrate_->grant().own_network) GTEST_SKIP() << "not granted";
  const Elsewhere elsewhere;
  server_.url = elsewhere.url();
  recipe_.verifier.expected = R"(["key-t1", {}])";
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "") << report.detail;
  EXPECT_EQ(report.reward, 1) << report.detail;
}

TEST_F(EpisodeServersTest, AServerElsewhereThatNobodyReachesFailsTheEpisodeByName) {
  server_.url = "http://127.0.0.1:1/mcp";
  server_.start_timeout_s = 0.2;
  const EpisodeReport report = Run();
  EXPECT_EQ(report.cause, "mcp");
  EXPECT_THAT(report.detail, HasSubstr("the MCP server 'all' (http://127.0.0.1:1/mcp) did not start"));
}

TEST_F(EpisodeServersTest, RoomsThatCannotHaveAServerRefuseTheRecipeByName) {
  server_.command = {"server"};
  server_.url = "http://127.0.0.1:8123/mcp";
  recipe_.mcp = {server_};
  sandbox::Grant grant;
  EXPECT_THAT(std::string(CheckMcpReach(recipe_, grant).message()), HasSubstr("'all' listens inside the room"));
  recipe_.mcp[0].command.clear();
  EXPECT_TRUE(CheckMcpReach(recipe_, grant).ok()) << "rooms share the machine's network";
  grant.landlock = 4;
  EXPECT_THAT(std::string(CheckMcpReach(recipe_, grant).message()), HasSubstr("rooms cannot reach"));
  grant.own_network = true;
  EXPECT_TRUE(CheckMcpReach(recipe_, grant).ok());
}

}  // namespace
}  // namespace ingot::agents
