// A POST to a server, and everything a server may do in its place; and the servers of reward terms.
#include "app/models/http_post.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "app/models/reward_servers.h"
#include "http/echo_handler.h"

namespace ingot::app {
namespace {

// A server on a free port.
struct Site {
  explicit Site(http::Handler& handler) {
    http::Options options;
    options.port = 0;
    options.shutdown_grace_s = 0;
    server = *http::Server::Listen(options, handler);
    server->Serve();
  }
  std::string operator()(const std::string& path) const { return server->url() + path; }
  std::unique_ptr<http::Server> server;
};

TEST(HttpPost, GivesTheBodyOfTheAnswer) {
  http::EchoHandler handler;
  const Site site(handler);
  const auto answer = Post({.url = site("/echo?a=1"), .body = R"({"a":1})", .key = ""});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, R"({"a":1})");
  const std::string large(300000, 'x');
  EXPECT_EQ(*Post({.url = site("/stream"), .body = large, .key = ""}), large) << "in chunks";
}

TEST(HttpPost, ReportsWhyThereIsNone) {
  http::EchoHandler handler;
  std::string gone;
  {
    const Site site(handler);
    gone = site("/echo");
    const auto missing = Post({.url = site("/nothing"), .body = "{}", .key = ""});
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(missing.status().message().find("404"), std::string::npos) << missing.status();
    const auto late = Post({.url = site("/hold"), .body = "{}", .key = "", .timeout_s = 0.2});
    EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << late.status();
    const auto large = Post({.url = site("/echo"), .body = std::string(5000, 'x'), .key = "", .max_answer_bytes = 100});
    EXPECT_FALSE(large.ok());
    const auto plain = Post({.url = "https" + site("/echo").substr(4), .body = "{}", .key = ""});
    EXPECT_EQ(plain.status().code(), absl::StatusCode::kUnavailable) << "it speaks no TLS";
  }
  EXPECT_EQ(Post({.url = gone, .body = "{}", .key = ""}).status().code(), absl::StatusCode::kUnavailable);
  for (const char* url : {"", "ftp://host/", "http://", "http:///path", "http://:80/", "http://a b/", "http://u@h/",
                          "http://h/a b", "http://h/\r\nX: 1"}) {
    EXPECT_EQ(Post({.url = url, .body = "{}", .key = ""}).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
}

// Answers 429 to the first requests, and asks for `pause` seconds.
class LimitingHandler final : public http::Handler {
 public:
  LimitingHandler(int limited, std::string pause) : limited_(limited), pause_(std::move(pause)) {}
  http::Opening Head(http::RequestHead) override {
    return {.exchange = http::MakeExchange([this](const std::string&) {
              if (asked++ >= limited_) return http::Reply{.body = "{}"};
              http::Reply reply{.status = 429, .body = "too many"};
              if (!pause_.empty()) reply.fields.emplace_back("Retry-After", pause_);
              return reply;
            })};
  }
  std::atomic<int> asked = 0;

 private:
  const int limited_;
  const std::string pause_;
};

TEST(HttpPost, AsksAServerThatLimitsAgainWhenItSays) {
  LimitingHandler soon(3, "0"), unsaid(1, ""), later(1, "30");
  const Site soon_site(soon), unsaid_site(unsaid), later_site(later);
  EXPECT_EQ(*Post({.url = soon_site("/"), .body = "{}", .key = ""}), "{}");
  EXPECT_EQ(soon.asked, 4);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(*Post({.url = unsaid_site("/"), .body = "{}", .key = ""}), "{}");
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  const auto past = Post({.url = later_site("/"), .body = "{}", .key = "", .limited_s = 5});
  EXPECT_EQ(past.status().code(), absl::StatusCode::kUnavailable) << past.status();
  EXPECT_EQ(later.asked, 1) << "no question after the limit";
}

TEST(HttpPost, AWaitForAServerThatLimitsEndsWithItsCaller) {
  LimitingHandler limiting(100, "300");
  const Site site(limiting);
  const auto answer =
      Post({.url = site("/"), .body = "{}", .key = "", .cancelled = [&] { return limiting.asked > 0; }});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled) << answer.status();
}

TEST(HttpPost, EndsWhenNobodyWaitsAnyMore) {
  http::EchoHandler handler;
  const Site site(handler);
  std::atomic<bool> cancelled = false;
  const std::jthread canceller([&] {
    handler.WaitForHeld(1);
    cancelled = true;
  });
  const auto answer = Post(
      {.url = site("/hold"), .body = "{}", .key = "", .timeout_s = 600, .cancelled = [&] { return cancelled.load(); }});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled) << answer.status();
}

// Refuses every request, and repeats its key.
class ReportingHandler final : public http::Handler {
 public:
  http::Opening Head(http::RequestHead head) override {
    return {.exchange = http::MakeExchange([key = head.Key()](const std::string&) {
              return http::Reply{.status = 401, .body = "no such key: " + key};
            })};
  }
};

TEST(HttpPost, NoErrorRepeatsTheKey) {
  ReportingHandler handler;
  const Site site(handler);
  const auto answer = Post({.url = site("/"), .body = "{}", .key = "a-secret"});
  EXPECT_EQ(answer.status().message(), site("/") + " answered 401: no such key: [the key]");
}

TEST(HttpPost, ChatCompletionsAreBelowTheBase) {
  for (const char* base : {"http://h/v1", "http://h/v1/"})
    EXPECT_EQ(ChatCompletionsUrl(base), "http://h/v1/chat/completions");
}

// Answers every request as a model would, with the request inside.
class FakeModelHandler final : public http::Handler {
 public:
  http::Opening Head(http::RequestHead head) override {
    auto answer = [key = head.Key(), target = head.target](const std::string& body) {
      const base::json::value asked = *base::ParseJson(body);
      base::json::object seen{{"key", key}, {"target", target}, {"request", asked}};
      base::json::object message{{"role", "assistant"}, {"content", base::PrintJson(seen)}};
      return http::Reply{.body = base::PrintJson(
                             base::json::object{{"choices", {base::json::object{{"message", std::move(message)}}}}})};
    };
    return {.exchange = http::MakeExchange(answer)};
  }
};

TEST(HttpJudge, AsksForAVerdictAtTemperatureZeroByTheSchema) {
  FakeModelHandler handler;
  const Site site(handler);
  const reward::TermParts parts = HttpTermParts(site("/v1"), "a-key-of-the-gateway");
  const auto answer = parts.judge->Ask({.url = "", .model = "pinned", .key_file = ""},
                                       {.system = "s", .user = "u", .schema_json = R"({"type":"object"})"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const base::json::value seen = *base::ParseJson(*answer);
  EXPECT_EQ(seen.at("target").as_string(), "/v1/chat/completions");
  EXPECT_EQ(seen.at("key").as_string(), "a-key-of-the-gateway");
  const base::json::value& request = seen.at("request");
  EXPECT_EQ(request.at("model").as_string(), "pinned");
  EXPECT_EQ(request.at("temperature").to_number<double>(), 0);
  EXPECT_EQ(request.at("messages").at(1).at("content").as_string(), "u");
  EXPECT_EQ(request.at("response_format").at("json_schema").at("schema").at("type").as_string(), "object");
}

TEST(HttpJudge, WithoutAServerThereIsNoAnswer) {
  const reward::TermParts parts = HttpTermParts("", "");
  EXPECT_EQ(parts.judge->Ask({}, {.system = "", .user = "", .schema_json = "{}"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  http::EchoHandler handler;  // it answers, but not as a model
  const Site site(handler);
  EXPECT_FALSE(
      parts.judge
          ->Ask({.url = site("/echo"), .model = "m", .key_file = ""}, {.system = "", .user = "", .schema_json = "{}"})
          .ok());
}

}  // namespace
}  // namespace ingot::app
