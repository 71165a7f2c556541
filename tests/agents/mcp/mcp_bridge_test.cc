#include "agents/mcp/mcp_bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "base/mutex.h"
#include "http/client.h"
#include "http/server.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents {
namespace {

using testing::HasSubstr;
using testing::Not;

// A stream whose second half comes when the test lets it.
class Stream final : public http::Exchange {
 public:
  explicit Stream(std::shared_future<void> second) : second_(std::move(second)) {}
  void Body(std::string, std::function<void()> wake) override {
    waiter_ = std::async(std::launch::async, [second = second_, wake] {
      second.wait();
      wake();
    });
    wake();
  }
  http::Output Send() override {
    if (!begun_) {
      begun_ = true;
      http::Output out;
      out.stream = http::StreamHead{.content_type = "text/event-stream", .fields = {{"Mcp-Session-Id", "s1"}}};
      out.data = "data: one\n\n";
      return out;
    }
    http::Output out;
    out.data = "data: two\n\n";
    out.done = true;
    return out;
  }
  void Closed(http::Side) override {}

 private:
  std::shared_future<void> second_;
  std::future<void> waiter_;
  bool begun_ = false;
};

// A server that notes each request's head and body.
class Server final : public http::Handler {
 public:
  Server() {
    http::Options options;
    options.port = 0;
    server_ = http::Server::Listen(options, *this).value();
    server_->Serve();
  }
  ~Server() override { server_->Stop(); }

  http::Opening Head(http::RequestHead head) override {
    {
      base::MutexLock lock(mu_);
      heads_.push_back(head);
    }
    if (head.method == "GET") return {.exchange = std::make_shared<Stream>(second.get_future().share())};
    return {.exchange = http::MakeExchange([](const std::string& body) {
              return http::Reply{.status = 202, .fields = {{"Mcp-Session-Id", "s2"}}, .body = "got " + body};
            })};
  }
  std::string url() const { return server_->url() + "/mcp?x=1"; }
  http::RequestHead last() {
    base::MutexLock lock(mu_);
    return heads_.back();
  }
  size_t requests() {
    base::MutexLock lock(mu_);
    return heads_.size();
  }

  std::promise<void> second;  // lets the stream go on

 private:
  base::Mutex mu_;
  std::vector<http::RequestHead> heads_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<http::Server> server_;
};

class McpBridgeTest : public testing::Test {
 protected:
  struct Answer {
    absl::Status status;
    http::Answer head;
    std::string body;
  };
  Answer Ask(const std::string& method, const std::string& url, const std::string& body = "",
             std::map<std::string, std::string> headers = {}, std::function<void(const std::string&)> seen = nullptr) {
    Answer answer;
    http::ClientRequest request{.url = url, .method = method, .headers = std::move(headers), .body = body};
    request.on_head = [&](http::Answer head) { answer.head = std::move(head); };
    request.on_bytes = [&](std::string_view bytes) {
      answer.body += bytes;
      if (seen) seen(answer.body);
      return true;
    };
    answer.status = http::Client().Send(request).status();
    return answer;
  }

  const sandbox::TestFolder folder_;
  const std::unique_ptr<sandbox::LocalSubstrate> substrate_ = sandbox::SharedUidSubstrate(folder_.path());
  const std::unique_ptr<sandbox::Sandbox> sandbox_ = substrate_->Prepare().value();
  Server server_;
  const std::unique_ptr<McpBridge> bridge_ = McpBridge::Make().value();
};

TEST_F(McpBridgeTest, RepeatsARequestWithTheRecipesHeadersAndMcpsAlone) {
  const McpBridge::Way way = bridge_->Open(*sandbox_, server_.url(), {{"Authorization", "Bearer secret"}}).value();
  const Answer answer =
      Ask("POST", way.url, "{}", {{"Mcp-Session-Id", "s2"}, {"Cookie", "c"}, {"Authorization", "Bearer agent"}});
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.head.status, 202);
  EXPECT_EQ(answer.head.headers.at("mcp-session-id"), "s2");
  EXPECT_EQ(answer.body, "got {}");
  const http::RequestHead got = server_.last();
  EXPECT_EQ(got.target, "/mcp?x=1");
  EXPECT_EQ(got.Find("authorization"), "Bearer secret");
  EXPECT_EQ(got.Find("mcp-session-id"), "s2");
  EXPECT_EQ(got.Find("cookie"), "");
  EXPECT_THAT(std::string(got.Find("host")), HasSubstr("127.0.0.1:")) << "of the server";
}

TEST_F(McpBridgeTest, EventsPassBeforeTheStreamEnds) {
  const McpBridge::Way way = bridge_->Open(*sandbox_, server_.url(), {}).value();
  bool let_go = false;
  const Answer answer = Ask("GET", way.url, "", {}, [&](const std::string& body) {
    if (let_go || body.find("data: one\n\n") == std::string::npos) return;
    let_go = true;
    server_.second.set_value();
  });
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.body, "data: one\n\ndata: two\n\n");
  EXPECT_EQ(answer.head.headers.at("content-type"), "text/event-stream");
}

TEST_F(McpBridgeTest, AWayReachesItsServerAloneAndEndsWhenItGoes) {
  McpBridge::Way way = bridge_->Open(*sandbox_, server_.url(), {}).value();
  EXPECT_EQ(Ask("POST", way.url + "0", "{}").head.status, 404);
  EXPECT_EQ(Ask("PUT", way.url, "").head.status, 405);
  EXPECT_EQ(server_.requests(), 0u);
  way.open.reset();
  const Answer after = Ask("POST", way.url, "{}");
  EXPECT_TRUE(!after.status.ok() || after.head.status == 404);
  EXPECT_EQ(server_.requests(), 0u);
}

TEST_F(McpBridgeTest, SaysWhyAServerCannotBeReachedWithoutItsUrl) {
  const McpBridge::Way way = bridge_->Open(*sandbox_, "http://127.0.0.1:1/path?key=secret", {}).value();
  const Answer answer = Ask("POST", way.url, "{}");
  EXPECT_EQ(answer.head.status, 502);
  EXPECT_THAT(answer.body, HasSubstr("the MCP server cannot be reached: "));
  EXPECT_THAT(answer.body, HasSubstr("Connection refused"));
  EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
  EXPECT_THAT(answer.body, Not(HasSubstr("path")));
}

}  // namespace
}  // namespace ingot::agents
