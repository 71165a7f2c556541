// Streams and connections over real sockets: those that are silent, broken off or left by their client, and many at once.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gateway/site.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

TEST(HttpServer, StreamsEventsThatEndWithDone) {
  Site site([](const auto&) { return Say("grüße dich"); });
  const auto episode = site.Open();
  const Response response = site.Ask("POST", "/v1/chat/completions", Hello(true), episode.api_key());
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
  std::string content;
  size_t at = 0, events = 0;
  value last;
  while (true) {
    ASSERT_EQ(response.body.compare(at, 6, "data: "), 0);
    const size_t end = response.body.find("\n\n", at);
    const std::string data = response.body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") break;
    last = base::ParseJson(data).value();
    if (events++ == 0) {
      EXPECT_EQ(last.at("choices").at(0).at("delta").at("role").as_string(), "assistant");
    }
    if (last.at("choices").as_array().empty()) continue;
    const value* text = base::Find(last.at("choices").at(0).at("delta"), "content");
    if (text != nullptr) content += text->as_string();
  }
  EXPECT_EQ(at, response.body.size());
  EXPECT_EQ(content, "grüße dich");
  EXPECT_EQ(last.at("usage").at("completion_tokens").as_int64(), 13);
}

TEST(HttpServer, KeepsASilentStreamAliveWithComments) {
  Site site([](const auto&) { return Say("hello", true); });
  site.http.keepalive_s = 0.01;
  const auto episode = site.Open();
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/v1/chat/completions", Hello(true), episode.api_key()));
  std::string line;
  while (!line.starts_with(": keep-alive")) line = wire.Line();
  site.engine->Release();
  wire.Send(Request("GET", "/healthz", "", "", "Connection: close\r\n"));
  EXPECT_NE(wire.Rest().find("[DONE]"), std::string::npos);
}

TEST(HttpServer, KeepsConnectionsAliveAndTakesPipelinedRequests) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  Wire wire(site.server().port());
  for (const bool stream : {false, true, false}) {
    wire.Send(Request("POST", "/v1/chat/completions", Hello(stream), episode.api_key()));
    EXPECT_EQ(Read(wire).status, 200);
  }
  const std::string one = Request("POST", "/v1/chat/completions", Hello(), episode.api_key());
  wire.Send(one + one + Request("GET", "/healthz", "", "", "Connection: close\r\n"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(wire).status, 200);
  EXPECT_EQ(wire.Rest(), "");
}

TEST(HttpServer, AbortsTheCallOfAClientThatReadsNothing) {
  Site site([](const auto&) {
    Script script = Say(std::string(100'000, 'x'));
    script.chunk = 100'000;
    return script;
  });
  site.http.write_timeout_s = 0.2;
  const auto episode = site.Open();
  Wire wire(site.server().port());
  object body = Body({Msg("user", "hi")});
  body["logprobs"] = true;  // makes the answer larger than what sockets buffer
  wire.Send(Request("POST", "/v1/chat/completions", base::PrintJson(body), episode.api_key()));
  site.engine->WaitForRequests(1);
  while (site.server().connections() != 0) std::this_thread::yield();
}

TEST(HttpServer, CancelsTheGenerationWhenTheClientGoesAway) {
  for (const bool half_first : {false, true}) {
    for (const bool stream : {false, true}) {
      Site site([](const auto&) { return Say("a long answer", true); });
      const auto episode = site.Open();
      Wire wire(site.server().port());
      wire.Send(Request("POST", "/v1/chat/completions", Hello(stream), episode.api_key()));
      site.engine->WaitForHeld(1);
      if (half_first) {
        wire.HalfClose();
        const std::string probe = stream ? ": keep-alive" : "HTTP/1.1 102 Processing";
        bool probed = false;
        for (int i = 0; i < 200 && !probed; ++i) probed = wire.Line().starts_with(probe);
        EXPECT_TRUE(probed);
        wire.Reset();
      } else {
        wire.Close();
      }
      while (site.pool.calls().empty() || site.engine->aborted() == 0) std::this_thread::yield();
      EXPECT_EQ(site.pool.calls()[0].finish(), v1::FINISH_ABORTED);
      EXPECT_EQ(site.engine->aborted(), 1);
    }
  }
}

TEST(HttpServer, AnswersAClientThatClosedItsSendingSide) {
  for (const bool stream : {false, true}) {
    Site site([](const auto&) { return Say("a long answer", true); });
    const auto episode = site.Open();
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/v1/chat/completions", Hello(stream), episode.api_key()));
    wire.HalfClose();
    site.engine->WaitForHeld(1);
    site.engine->Release();
    Response response = Read(wire);
    while (response.status == 102) response = Read(wire);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body.ends_with("data: [DONE]\n\n"), stream);
    EXPECT_EQ(wire.Rest(), "");
    EXPECT_EQ(site.pool.calls().at(0).finish(), v1::FINISH_STOP);
  }
}

TEST(HttpServer, BreaksOffAStreamWithAnErrorEvent) {
  Site site([](const auto&) {
    Script script = Say("half an answer", true);
    script.error = absl::UnavailableError("the engine is gone");
    return script;
  });
  const auto episode = site.Open();
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/v1/chat/completions", Hello(true), episode.api_key()));
  EXPECT_EQ(wire.Line(), "HTTP/1.1 200 OK");
  site.engine->WaitForHeld(1);
  site.engine->Release();
  wire.Send(Request("GET", "/healthz", "", "", "Connection: close\r\n"));
  const std::string rest = wire.Rest();
  EXPECT_NE(rest.find(R"(data: {"error":{"message":"the engine ended the call: the engine is gone")"),
            std::string::npos);
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_NE(rest.find(R"({"status":"ok"})"), std::string::npos);
}

TEST(HttpServer, AbortsCallsThatOutlastTheGrace) {
  Site site([](const auto&) { return Say("hello", true); });
  site.http.shutdown_grace_s = 0;
  const auto episode = site.Open();
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/v1/chat/completions", Hello(), episode.api_key()));
  site.engine->WaitForHeld(1);
  site.server().Stop();
  EXPECT_EQ(wire.Rest(), "");
  site.gateway().Shutdown();
  EXPECT_EQ(site.pool.calls().at(0).finish(), v1::FINISH_ABORTED);
}

TEST(HttpServer, ServesManyAgentsAtOnce) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.io_threads = 2;
  constexpr int kAgents = 12, kEpisodes = 4, kTurns = 4;
  site.server();
  std::vector<std::thread> agents;
  std::atomic<int> good{0};
  for (int agent = 0; agent < kAgents; ++agent) {
    agents.emplace_back([&, agent] {
      for (int e = 0; e < kEpisodes; ++e) {
        Wire wire(site.server().port());
        wire.Send(Request("POST", "/ingot/v1/episodes", "{}"));
        const Response opened = Read(wire);
        const std::string id(opened.json().at("episode_id").as_string());
        const std::string key(opened.json().at("api_key").as_string());
        base::json::array messages{Msg("system", "same"), Msg("user", "agent " + std::to_string(agent))};
        for (int turn = 0; turn < kTurns; ++turn) {
          object body = Body(messages);
          body["stream"] = (turn + agent) % 2 == 0;
          wire.Send(Request("POST", "/s/" + id + "/v1/chat/completions", base::PrintJson(body), key));
          const Response answer = Read(wire);
          good += answer.status == 200;
          messages.push_back(Msg("assistant", "hello"));
          messages.push_back(Msg("user", "more"));
        }
        wire.Send(Request("POST", "/ingot/v1/episodes/" + id + "/reward", R"({"reward":1})", key));
        Read(wire);
        wire.Send(Request("POST", "/ingot/v1/episodes/" + id + "/end", R"({"status":"finished"})", key));
        good += Read(wire).status == 200;
      }
    });
  }
  for (std::thread& agent : agents) agent.join();
  EXPECT_EQ(good, kAgents * kEpisodes * (kTurns + 1));
  EXPECT_EQ(site.pool.calls().size(), size_t{kAgents * kEpisodes * kTurns});
  EXPECT_EQ(site.gateway().Status().spliced_calls(), kAgents * kEpisodes * (kTurns - 1));
  EXPECT_EQ(site.gateway().Status().open_episodes(), 0);
}

}  // namespace
}  // namespace ingot::gateway
