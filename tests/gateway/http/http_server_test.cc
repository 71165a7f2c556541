// What the gateway answers over real sockets: its routes and dialects, errors, models and health.
#include "gateway/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "gateway/site.h"

namespace ingot::gateway {
namespace {

using base::json::value;

TEST(HttpServer, ServesEveryDialectWhereverItsClientsLookForIt) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const std::string chat = Hello(), text = R"({"prompt":"x","max_tokens":9})", input = R"({"input":"x"})",
                    google = R"({"contents":[{"parts":[{"text":"x"}]}]})";
  const std::pair<const char*, const std::string*> paths[] = {{"/chat/completions", &chat},
                                                              {"/completions", &text},
                                                              {"/responses", &input},
                                                              {"/messages?beta=true", &chat},
                                                              {"/messages/count_tokens", &chat},
                                                              {"/responses/input_tokens", &input},
                                                              {"/models/m:generateContent", &google},
                                                              {"/models/a%2fb:streamGenerateContent?alt=sse", &google},
                                                              {"/models/a/b:countTokens", &google}};
  for (const auto& [path, body] : paths) {
    for (const std::string& base : {std::string("/v1"), "/s/" + episode.episode_id() + "/v1",
                                    "/s/" + episode.episode_id() + "/v1/v1", "/s/" + episode.episode_id()}) {
      const Response response = site.Ask("POST", base + path, *body, episode.api_key());
      EXPECT_EQ(response.status, 200) << base << path << response.body;
    }
    Wire wire(site.server().port());
    wire.Send(Request("POST", std::string("/v1") + path, *body, "",
                      "X-Api-Key: " + episode.api_key() + "\r\nanthropic-version: 2099-01-01\r\n"));
    EXPECT_EQ(Read(wire).status, 200) << path;
    EXPECT_EQ(site.Ask("GET", std::string("/v1") + path, "").status, 405) << path;
  }
  for (const std::string& target :
       {std::string("/"), "/s/" + episode.episode_id(), "/s/" + episode.episode_id() + "/v1/"}) {
    Wire wire(site.server().port());
    wire.Send(Request("HEAD", target, ""));
    EXPECT_EQ(Read(wire, true).status, 200) << target;
  }
}

TEST(HttpServer, WordsErrorsAsTheirDialectDoes) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.max_body_bytes = 1000;
  const auto episode = site.Open();
  const auto type = [&](const Response& response) {
    return std::string(response.json().at("error").at("type").as_string());
  };
  const Response bad = site.Ask("POST", "/v1/messages", "{}", episode.api_key());
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.json().at("type").as_string(), "error");
  EXPECT_EQ(bad.headers.at("x-should-retry"), "false");
  EXPECT_EQ(type(site.Ask("POST", "/v1/messages", Hello(), "nobody")), "authentication_error");
  EXPECT_EQ(type(site.Ask("POST", "/s/unknown/v1/messages", Hello())), "not_found_error");
  EXPECT_EQ(type(site.Ask("GET", "/v1/messages", "")), "invalid_request_error");
  const Response large = site.Ask("POST", "/v1/messages?beta=true", std::string(5000, 'x'));
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(type(large), "request_too_large");
  Wire wire(site.server().port());
  wire.Send(Request("GET", "/v1/models/other", "", "", "anthropic-version: 2023-06-01\r\n"));
  EXPECT_EQ(type(Read(wire)), "not_found_error");
}

TEST(HttpServer, ReportsErrorsInTheFormOfTheDialect) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const struct {
    std::string method, target, body;
    int status;
  } cases[] = {
      {"POST", "/v1/chat/completions", "{", 400},
      {"POST", "/v1/chat/completions", "", 400},
      {"POST", "/v1/chat/completions", "[]", 400},
      {"POST", "/v1/chat/completions", R"({"messages":[]})", 400},
      {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":1}]})", 400},
      {"GET", "/v1/chat/completions", "", 405},
      {"POST", "/v1/models", "", 405},
      {"GET", "/v1/models/other", "", 404},
      {"GET", "/nothing", "", 404},
      {"GET", "/s/x", "", 404},
      {"GET", "/s/x/healthz", "", 404},
      {"POST", "/ingot/v1/episodes", "[1]", 400},
      {"POST", "/ingot/v1/episodes/", "{}", 201},
      {"POST", "/ingot/v1/episodes/abc", "{}", 404},
      {"POST", "/ingot/v1/episodes/abc/reward", "{\"reward\":1}", 404},
  };
  for (const auto& test : cases) {
    const Response response = site.Ask(test.method, test.target, test.body, episode.api_key());
    EXPECT_EQ(response.status, test.status) << test.method << " " << test.target << " " << response.body;
    if (test.status == 201) continue;
    for (const char* field : {"message", "type", "param", "code"}) {
      EXPECT_NE(base::Find(response.json().at("error"), field), nullptr) << test.target;
    }
    EXPECT_EQ(response.headers.contains("allow"), test.status == 405);
  }
}

TEST(HttpServer, EveryAnswerHasADateAndAnIdThatClientsLookFor) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  std::set<std::string> ids;
  for (const char* body :
       {R"({"messages":[{"role":"user","content":"q"}]})",
        R"({"messages":[{"role":"user","content":"q"}],"stream":true})", "{", R"({"messages":[]})"}) {
    const Response response = site.Ask("POST", "/v1/chat/completions", body, episode.api_key());
    const std::string id = response.headers.at("x-request-id");
    EXPECT_EQ(response.headers.at("request-id"), id);
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_THAT(response.headers.at("date"), testing::MatchesRegex("[A-Z].., .. [A-Z].. 20.. ..:..:.. GMT"));
    if (response.status == 200) {  // the id is the call's, which names its record
      EXPECT_NE(response.body.find("chatcmpl-" + id.substr(std::string("req_").size())), std::string::npos) << id;
    }
  }
  for (const char* target : {"/v1/models", "/nothing"}) {
    EXPECT_TRUE(ids.insert(site.Ask("GET", target, "").headers.at("x-request-id")).second);
  }
}

TEST(HttpServer, TakesTargetsInTheAbsoluteForm) {
  Site site([](const auto&) { return Say("hello"); });
  for (const char* target : {"http://x/v1/models", "HTTPS://x:80/v1/models?a=/b", "http://x/v1/models#c"}) {
    EXPECT_EQ(site.Ask("GET", target, "").status, 200) << target;
  }
  for (const char* target : {"http://x", "http://", "x/v1/models", "/http://x/v1/models"}) {
    EXPECT_EQ(site.Ask("GET", target, "").status, 404) << target;
  }
}

TEST(HttpServer, RejectsBodiesThatAreEncoded) {
  Site site([](const auto&) { return Say("hello"); });
  const auto ask = [&](const std::string& field) {
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/ingot/v1/episodes", "{}", "", field));
    return Read(wire);
  };
  EXPECT_EQ(ask("Content-Encoding: identity\r\n").status, 201);
  const Response rejected = ask("Content-Encoding: gzip\r\n");
  EXPECT_EQ(rejected.status, 415);
  EXPECT_EQ(rejected.headers.at("accept-encoding"), "identity");
}

// Paths below a dialect's own get errors in its words.
TEST(HttpServer, WordsNotFoundBelowADialectsPathInThatDialect) {
  Site site([](const auto&) { return Say("hello"); });
  const Response messages = site.Ask("POST", "/v1/messages/batches", "{}");
  EXPECT_EQ(messages.status, 404);
  EXPECT_EQ(messages.json().at("type").as_string(), "error");
  EXPECT_EQ(messages.json().at("error").at("type").as_string(), "not_found_error");
  EXPECT_FALSE(site.Ask("GET", "/v1/chat/completions/x", "").json().as_object().contains("type"));
  EXPECT_FALSE(site.Ask("GET", "/v1/messagesx", "").json().as_object().contains("type"));
}

TEST(HttpServer, ListsTheModelsAndTheirWeights) {
  Site site([](const auto&) { return Say("hello"); });
  site.options.models = {{.name = "frozen", .weights = ModelWeights::kPinned, .version = 3, .address = ""},
                         {.name = "judge", .weights = ModelWeights::kExternal, .version = 0, .address = "far:1"}};
  site.external["judge"] = site.engine;
  const value list = site.Ask("GET", "/v1/models", "").json();
  ASSERT_EQ(list.at("data").as_array().size(), 3u);
  EXPECT_EQ(list.at("data").at(0).at("weights").as_string(), "follow");
  EXPECT_EQ(list.at("data").at(1).at("id").as_string(), "frozen");
  EXPECT_EQ(list.at("data").at(1).at("weights").as_string(), "pinned");
  EXPECT_EQ(list.at("data").at(1).at("version").as_int64(), 3);
  EXPECT_EQ(list.at("data").at(2).at("weights").as_string(), "external");
  EXPECT_EQ(list.at("last_id").as_string(), "judge");
  EXPECT_EQ(site.Ask("GET", "/v1/models/frozen", "").json().at("weights").as_string(), "pinned");
  EXPECT_EQ(site.Ask("GET", "/v1/models/other", "").status, 404);
}

// Libraries escape the slash in a name.
TEST(HttpServer, FindsAModelByItsEscapedName) {
  Site site([](const auto&) { return Say("hello"); });
  site.options.models = {{.name = "org/judge", .weights = ModelWeights::kPinned, .version = 3, .address = ""}};
  for (const char* name : {"org/judge", "org%2Fjudge", "org%2fjud%67e"}) {
    EXPECT_EQ(site.Ask("GET", std::string("/v1/models/") + name, "").json().at("id").as_string(), "org/judge") << name;
  }
  for (const char* name : {"org%2", "org%", "org%zzjudge", "%"}) {
    EXPECT_EQ(site.Ask("GET", std::string("/v1/models/") + name, "").status, 404) << name;
  }
}

// A model's date is that of its weights, so that a client sees when they change.
TEST(HttpServer, DatesModelsByTheLoadingOfTheirWeights) {
  Site site([](const auto&) { return Say("hello"); });
  site.options.models = {{.name = "frozen", .weights = ModelWeights::kPinned, .version = 3, .address = ""},
                         {.name = "judge", .weights = ModelWeights::kExternal, .version = 0, .address = "far:1"}};
  const auto judge = std::make_shared<ScriptedEngine>([](const auto&) { return Say("no"); });
  site.external["judge"] = judge;
  site.clock.Advance(std::chrono::seconds(1'700'000'000) - site.clock.Now());
  const auto created = [&](const std::string& name) {
    return site.Ask("GET", "/v1/models/" + name, "").json().at("created").as_int64();
  };
  site.engine->held = {{3, 1'700'000'100}, {7, 1'700'000'200}};
  EXPECT_EQ(created("ingot"), 1'700'000'200);
  EXPECT_EQ(created("frozen"), 1'700'000'100);
  EXPECT_EQ(created("judge"), 1'700'000'000) << "the gateway's start, where the engine does not say";
  judge->held = {{0, 1'700'000'050}};
  EXPECT_EQ(created("judge"), 1'700'000'050);
  site.engine->held[8] = 1'700'000'300;
  const value list = site.Ask("GET", "/v1/models", "").json().at("data");
  EXPECT_EQ(list.at(0).at("created").as_int64(), 1'700'000'300);
  EXPECT_EQ(list.at(0).at("created_at").as_string(), "2023-11-14T22:18:20Z");
  EXPECT_EQ(list.at(1).at("created").as_int64(), 1'700'000'100);
  judge->gone = absl::UnavailableError("gone");
  EXPECT_EQ(created("judge"), 1'700'000'000);
}

// Base URLs that end with a slash, joined with paths that begin with one.
TEST(HttpServer, TakesSlashesThatStandTwice) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  for (const std::string& target :
       {std::string("//v1/chat/completions"), std::string("/v1//chat/completions"),
        std::string("//v1///chat//completions/"), std::string("/v1//v1/chat/completions//"),
        "//s/" + episode.episode_id() + "//v1//chat/completions", std::string("http://x//v1/chat/completions?a=//b")}) {
    EXPECT_EQ(site.Ask("POST", target, Hello(), episode.api_key()).status, 200) << target;
  }
  EXPECT_EQ(site.Ask("GET", "//v1/models//ingot", "").status, 200);
  EXPECT_EQ(site.Ask("POST", "//ingot//v1/episodes", "{}").status, 201);
  EXPECT_EQ(site.Ask("GET", "//", "").status, 404);
}

TEST(HttpServer, CountsTheTokensOfAResponsesRequest) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const std::string body = R"({"model":"m","instructions":"Be brief.","input":"hi","stream":true})";
  const Response counted = site.Ask("POST", "/v1/responses/input_tokens", body, episode.api_key());
  ASSERT_EQ(counted.status, 200) << counted.body;
  EXPECT_TRUE(site.engine->requests().empty());
  ASSERT_EQ(site.Ask("POST", "/v1/responses", body, episode.api_key()).status, 200);
  EXPECT_EQ(counted.body, absl::StrCat(R"({"object":"response.input_tokens","input_tokens":)",
                                       site.engine->requests()[0].prompt_ids_size(), "}"));
}

// Monitors have no key, and learn nothing but that the gateway is up.
TEST(HttpServer, ReportsMonitorsItsHealthAndVersionAndNoMore) {
  Site site([](const auto&) { return Say("hello"); });
  site.admin_key = "0123456789abcdef";
  for (const char* path : {"/health", "/healthz"}) EXPECT_EQ(site.Ask("GET", path, "").body, R"({"status":"ok"})");
  const Response version = site.Ask("GET", "/version", "");
  EXPECT_EQ(version.status, 200);
  EXPECT_THAT(version.body, testing::MatchesRegex(R"(\{"version":"[0-9.]+"\})"));
  EXPECT_EQ(site.Ask("POST", "/version", "{}").status, 405);
  EXPECT_EQ(site.Ask("GET", "/s/x/version", "").status, 404);
  site.gateway().Shutdown();
  EXPECT_EQ(site.Ask("GET", "/health", "").status, 503);
}

TEST(HttpServer, AnswersModelsHealthAndStatusAndShowsAgentsNoMetrics) {
  Site site([](const auto&) { return Say("hello"); });
  EXPECT_EQ(site.Ask("GET", "/v1/models", "").json().at("data").at(0).at("id").as_string(), "ingot");
  EXPECT_EQ(site.Ask("GET", "/s/abc/v1/models", "").status, 200);
  EXPECT_EQ(site.Ask("GET", "/v1/models/ingot?x=1", "").status, 200);
  EXPECT_EQ(site.Ask("GET", "/healthz", "").json().at("status").as_string(), "ok");
  const base::json::value status = site.Ask("GET", "/ingot/v1/status", "").json();
  EXPECT_EQ(status.at("active_calls").as_int64(), 0);
  EXPECT_EQ(status.at("uncalled_episodes").as_int64(), 0);
  EXPECT_EQ(status.at("oldest_uncalled_s").as_double(), 0);
  for (const char* path : {"/metrics", "/v1/metrics", "/s/abc/metrics"}) {
    EXPECT_EQ(site.Ask("GET", path, "").status, 404) << path;
  }
  EXPECT_NE(site.gateway().MetricsText().find("ingot_gateway_calls_total{outcome=\"completed\"} 0"), std::string::npos);
  Wire wire(site.server().port());
  wire.Send(Request("HEAD", "/healthz", ""));
  EXPECT_EQ(Read(wire, true).status, 200);
  wire.Send(Request("GET", "/healthz", ""));  // the connection is still in step
  EXPECT_EQ(Read(wire).status, 200);
}

}  // namespace
}  // namespace ingot::gateway
