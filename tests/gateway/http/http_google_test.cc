// Google's API over real sockets: its paths, keys, streams, errors and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/site.h"

namespace ingot::gateway {
namespace {

using base::json::value;

TEST(HttpServer, ServesGooglesPathsUnderEveryVersion) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const std::string body = R"({"contents":[{"parts":[{"text":"x"}]}]})", key = "x-goog-api-key: " + episode.api_key();
  const std::string paths[] = {"/v1beta/models/m:generateContent",
                               "/v1/models/m:generateContent",
                               "/v1alpha/models/m:countTokens",
                               "//v1beta//models/m:generateContent",
                               "/v1beta/models/org/m:generateContent",
                               "/v1beta/models/org%2Fm:generateContent",
                               "/models/m:generateContent",
                               "/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent",
                               "/s/" + episode.episode_id() + "/v1/v1beta/models/m:streamGenerateContent",
                               "/s/" + episode.episode_id() + "/v1beta/models/m:streamGenerateContent"};
  for (const std::string& path : paths) {
    Wire wire(site.server().port());
    wire.Send(Request("POST", path, body, "", key + "\r\n"));
    const Response response = Read(wire);
    EXPECT_EQ(response.status, 200) << path << response.body;
  }
  for (const v1::Call& call : site.pool.calls()) EXPECT_THAT(call.model(), testing::AnyOf("m", "org/m"));
  EXPECT_EQ(site.pool.calls().size(), std::size(paths) - 1);
  // The key may stand in the query, or in the header of every other API.
  const std::string path = "/v1beta/models/m:generateContent";
  EXPECT_EQ(site.Ask("POST", path + "?key=" + episode.api_key(), body).status, 200);
  EXPECT_EQ(site.Ask("POST", path + "?alt=json&key=%69" + episode.api_key().substr(1), body).status, 200);
  EXPECT_EQ(site.Ask("POST", path, body, episode.api_key()).status, 200);
  EXPECT_EQ(site.Ask("POST", path + "?key=other", body, episode.api_key()).status, 200) << "Bearer comes first";
  EXPECT_EQ(site.Ask("POST", path + "?key=other", body).status, 401);
  EXPECT_EQ(site.Ask("POST", path, body).status, 401);
}

TEST(HttpServer, FramesGooglesStreamsAsEventsOrAsAnArray) {
  Site site([](const auto&) {
    Script script = Say("grüße");
    script.chunk = 1;
    return script;
  });
  const auto episode = site.Open();
  const std::string body = R"({"contents":[{"parts":[{"text":"x"}]}]})";
  const std::string path = "/v1beta/models/m:streamGenerateContent";
  const auto text_of = [](const value& event) {
    return std::string(event.at("candidates").at(0).at("content").at("parts").at(0).at("text").as_string());
  };
  const Response array = site.Ask("POST", path, body, episode.api_key());
  EXPECT_EQ(array.headers.at("content-type"), "application/json; charset=utf-8");
  std::string text;
  const value elements = array.json();
  for (const value& event : elements.as_array()) text += text_of(event);
  EXPECT_EQ(text, "grüße");
  const Response events = site.Ask("POST", path + "?alt=sse", body, episode.api_key());
  EXPECT_EQ(events.headers.at("content-type"), "text/event-stream; charset=utf-8");
  text.clear();
  for (size_t at = 0; at < events.body.size();) {
    ASSERT_EQ(events.body.compare(at, 6, "data: "), 0) << events.body;
    const size_t end = events.body.find("\n\n", at);
    text += text_of(base::ParseJson(events.body.substr(at + 6, end - at - 6)).value());
    at = end + 2;
  }
  EXPECT_EQ(text, "grüße");
}

// A comment would break python-genai, and an array cannot have one.
TEST(HttpServer, KeepsGooglesStreamsAliveWithEmptyLines) {
  for (const std::string& query : {std::string(), std::string("?alt=sse")}) {
    Site site([](const auto&) {
      Script script = Say("hello", true);
      script.chunk = 1;
      return script;
    });
    site.http.keepalive_s = 0.01;
    const auto episode = site.Open();
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/v1beta/models/m:streamGenerateContent" + query,
                      R"({"contents":[{"parts":[{"text":"x"}]}]})", episode.api_key()));
    std::string line;
    while (line != "1") line = wire.Line();  // the chunk of one byte
    EXPECT_EQ(wire.Line(), "\n");
    site.engine->Release();
    wire.Send(Request("GET", "/healthz", "", "", "Connection: close\r\n"));
    const std::string rest = wire.Rest();
    EXPECT_NE(rest.find("\"finishReason\":\"STOP\""), std::string::npos);
    EXPECT_EQ(rest.find("keep-alive\n\n"), std::string::npos);
  }
}

TEST(HttpServer, BreaksOffGooglesStreamsSoThatEveryLibraryNotices) {
  for (const std::string& query : {std::string(), std::string("?alt=sse")}) {
    Site site([](const auto&) {
      Script script = Say("half an answer", true);
      script.error = absl::UnavailableError("the engine is gone");
      return script;
    });
    const auto episode = site.Open();
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/v1beta/models/m:streamGenerateContent" + query,
                      R"({"contents":[{"parts":[{"text":"x"}]}]})", episode.api_key()));
    EXPECT_EQ(wire.Line(), "HTTP/1.1 200 OK");
    site.engine->WaitForHeld(1);
    site.engine->Release();
    wire.Send(Request("GET", "/healthz", "", "", "Connection: close\r\n"));
    const std::string rest = wire.Rest();
    const std::string error =
        R"({"error":{"code":503,"message":"the engine ended the call: the engine is gone","status":"UNAVAILABLE"}})";
    if (query.empty()) {
      EXPECT_NE(rest.find(",\n" + error + "]"), std::string::npos) << rest;
    } else {
      EXPECT_NE(rest.find("data: " + error + "\n\n" + error), std::string::npos) << rest;
    }
  }
}

TEST(HttpServer, WordsErrorsAndModelsAsGoogleDoesUnderItsPathsAndHeaders) {
  Site site([](const auto&) { return Say("hello"); });
  site.options.models = {{.name = "org/judge", .weights = ModelWeights::kPinned, .version = 3, .address = ""}};
  site.options.max_new_tokens = 512;
  const std::string path = "/v1beta/models/m:generateContent";
  const auto status_of = [](const Response& response) {
    const value error = response.json().at("error");
    EXPECT_EQ(error.at("code").as_int64(), response.status) << response.body;
    EXPECT_FALSE(error.at("message").as_string().empty());
    return std::string(error.at("status").as_string());
  };
  EXPECT_EQ(status_of(site.Ask("POST", path, "{}", "nobody")), "UNAUTHENTICATED");
  EXPECT_EQ(status_of(site.Ask("POST", path, "{}", site.Open().api_key())), "INVALID_ARGUMENT");
  EXPECT_EQ(status_of(site.Ask("GET", path, "")), "UNIMPLEMENTED");
  EXPECT_EQ(status_of(site.Ask("POST", "/v1beta/models/m:embedContent", "{}")), "UNIMPLEMENTED") << "a model's name";
  EXPECT_EQ(status_of(site.Ask("POST", "/v1beta/cachedContents", "{}")), "NOT_FOUND");
  EXPECT_EQ(status_of(site.Ask("GET", "/v1beta/models/other", "")), "NOT_FOUND");
  EXPECT_EQ(status_of(site.Ask("GET", "/v1/models/other?key=k", "")), "NOT_FOUND");
  EXPECT_EQ(site.Ask("GET", "/v1beta/models", "").body,
            R"({"models":[{"name":"models/ingot","version":"follow","displayName":"ingot","outputTokenLimit":512,)"
            R"("supportedGenerationMethods":["generateContent","countTokens"],"inputTokenLimit":100000},)"
            R"({"name":"models/org/judge","version":"3","displayName":"org/judge","outputTokenLimit":512,)"
            R"("supportedGenerationMethods":["generateContent","countTokens"],"inputTokenLimit":100000}]})");
  const char* const judge = "models/org/judge";
  EXPECT_EQ(site.Ask("GET", "/v1beta/models/org%2fjudge", "").json().at("name").as_string(), judge);
  EXPECT_EQ(site.Ask("GET", "/v1/models/org/judge?key=k", "").json().at("name").as_string(), judge);
  Wire wire(site.server().port());
  wire.Send(Request("GET", "/v1/models/org/judge", "", "", "x-goog-api-key: k\r\n"));
  EXPECT_EQ(Read(wire).json().at("name").as_string(), judge);
  EXPECT_EQ(site.Ask("GET", "/v1/models/org/judge", "").json().at("id").as_string(), "org/judge");
}

}  // namespace
}  // namespace ingot::gateway
