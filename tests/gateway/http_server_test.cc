// The API of the gateway over real sockets: routes, dialects, errors, and the records of calls.
#include "gateway/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "gateway/site.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

std::string Hello(bool stream = false) {
  object body = Body({Msg("user", "hi")});
  if (stream) {
    body["stream"] = true;
    body["stream_options"] = object{{"include_usage", true}};
  }
  return base::PrintJson(body);
}

// Half a surrogate pair becomes the replacement character, here as everywhere in a body.
TEST(HttpServer, OpensAnEpisodeWithAPayloadThatWasCutWithinACharacter) {
  Site site([](const auto&) { return Say("hello"); });
  const Response opened =
      site.Ask("POST", "/ingot/v1/episodes", R"({"group":"g","task":{"payload":{"q":"why\ud83d?","n":1e400}}})");
  ASSERT_EQ(opened.status, 201) << opened.body;
  EXPECT_NE(opened.body.find("\"payload\":{\"q\":\"why\uFFFD?\",\"n\":1e400}"), std::string::npos) << opened.body;
}

TEST(HttpServer, ServesAnEpisodeFromItsOpeningToItsEnd) {
  Site site([](const auto&) { return Say("hello"); });
  const Response opened = site.Ask("POST", "/ingot/v1/episodes", R"({"scaffold":"s"})");
  ASSERT_EQ(opened.status, 201) << opened.body;
  const std::string id(opened.json().at("episode_id").as_string());
  const std::string key(opened.json().at("api_key").as_string());
  EXPECT_EQ(opened.json().at("base_url").as_string(), site.server().url() + "/s/" + id + "/v1");
  EXPECT_EQ(opened.json().at("task").at("payload").at("question").as_string(), "1+1");
  EXPECT_NE(opened.body.find("\"sum\":18446744073709551616}"), std::string::npos) << opened.body;

  const std::string once = "Idempotency-Key: 0123456789abcdef\r\n";
  std::set<std::string> opened_once;
  for (int again = 0; again < 2; ++again) {
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/ingot/v1/episodes", R"({"scaffold":"s"})", "", once));
    opened_once.insert(std::string(Read(wire).json().at("episode_id").as_string()));
  }
  EXPECT_EQ(opened_once.size(), 1u);
  EXPECT_FALSE(opened_once.contains(id));

  // By key, by URL, by both; not by another's key.
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), key).status, 200);
  EXPECT_EQ(site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello()).status, 200);
  const Response both = site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello(), key);
  ASSERT_EQ(both.status, 200);
  EXPECT_EQ(both.json().at("choices").at(0).at("message").at("content").as_string(), "hello");
  EXPECT_EQ(both.json().at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 2);
  EXPECT_EQ(site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello(), "another").status, 403);
  EXPECT_EQ(site.Ask("POST", "/s/unknown/v1/chat/completions", Hello()).status, 404);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), "another").status, 401);

  const std::string path = "/ingot/v1/episodes/" + id;
  EXPECT_EQ(site.Ask("POST", path + "/reward", R"({"reward":1})").status, 401);
  EXPECT_EQ(site.Ask("POST", path + "/reward", R"({"reward":"high"})", key).status, 400);
  EXPECT_EQ(site.Ask("POST", path + "/reward", "{}", key).status, 400);
  EXPECT_EQ(site.Ask("POST", path + "/reward", R"({"reward":1,"signals":{"steps":2,"ok":true}})", key).status, 200);
  EXPECT_EQ(site.Ask("POST", path + "/end", R"({"status":"done"})", key).status, 400);
  EXPECT_EQ(site.Ask("POST", path + "/end", R"({"status":"finished"})", key).status, 200);
  EXPECT_EQ(site.Ask("POST", path + "/end", R"({"status":"finished"})", key).status, 200);
  EXPECT_EQ(site.Ask("POST", path + "/end", R"({"status":"failed"})", key).status, 409);
  EXPECT_EQ(site.Ask("POST", path + "/reward", R"({"reward":1})", key).status, 410);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), key).status, 410);
  EXPECT_EQ(site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello()).status, 410);
  EXPECT_EQ(site.pool.episode(id).signals().at("ok"), 1);
}

TEST(HttpServer, TakesASnapshotThatAnotherEpisodeBeginsAt) {
  Site site([](const auto&) { return Say("hello"); });
  const Response elsewhere = site.Ask("POST", "/ingot/v1/episodes", "{}");
  const auto path = [](const std::string& id) { return "/ingot/v1/episodes/" + id + "/snapshots"; };
  const std::string id(elsewhere.json().at("episode_id").as_string()), key(elsewhere.json().at("api_key").as_string());
  const Response refused = site.Ask("POST", path(id), "", key);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.json().at("error").at("code").as_string(), "no_room");
  EXPECT_EQ(site.Ask("POST", path(id), "", "another").status, 403);
  EXPECT_EQ(site.Ask("GET", path(id), "", key).status, 405);

  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  const auto episode = *site.gateway().OpenEpisode(open);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), episode.api_key()).status, 200);
  std::thread runner([&] {
    v1::NextSnapshotRequest next;
    next.set_runner("agents");
    v1::SnapshotTakenRequest taken;
    while (taken.snapshot_id().empty()) taken.set_snapshot_id(site.gateway().NextSnapshot(next)->snapshot_id());
    EXPECT_TRUE(site.gateway().SnapshotTaken(taken).ok());
  });
  const Response made = site.Ask("POST", path(episode.episode_id()), "", episode.api_key());
  runner.join();
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string snapshot = episode.episode_id() + ".1";
  EXPECT_EQ(made.json().at("snapshot_id").as_string(), snapshot);
  EXPECT_EQ(made.json().at("call_id").as_string(), site.pool.calls().at(0).call_id());
  const Response forked = site.Ask("POST", "/ingot/v1/episodes", R"({"from_snapshot":")" + snapshot + "\"}");
  EXPECT_EQ(forked.status, 201) << forked.body;
  EXPECT_EQ(forked.json().at("from_snapshot").as_string(), snapshot);
  EXPECT_EQ(site.Ask("POST", "/ingot/v1/episodes", R"({"from_snapshot":"gone.1"})").status, 404);

  // The snapshot's files come from the runner, with the key of the episode that begins at it.
  const std::string leaf(forked.json().at("episode_id").as_string()), leaf_key(forked.json().at("api_key").as_string());
  const std::string files = "/ingot/v1/episodes/" + leaf + "/files";
  EXPECT_EQ(forked.json().at("files_url").as_string(), site.server().url() + files);
  EXPECT_EQ(site.Ask("GET", files, "").status, 401);
  EXPECT_EQ(site.Ask("GET", files, "", episode.api_key()).status, 403);
  EXPECT_EQ(site.Ask("GET", "/ingot/v1/episodes/" + id + "/files", "", key).status, 404) << "it begins at no snapshot";
  std::string archive;  // more than the gateway holds
  for (int i = 0; archive.size() < 3'000'000; ++i) archive += std::to_string(i) + ",";
  const auto send = [&](const std::string& error, bool is_gone = false) {
    v1::NextSnapshotRequest next;
    next.set_runner("agents");
    next.set_wait_ms(20'000);
    const v1::NextSnapshotResponse ask = *site.gateway().NextSnapshot(next);
    EXPECT_EQ(ask.snapshot_id(), snapshot);
    v1::SnapshotFilesPart part;
    part.set_transfer_id(ask.transfer_id());
    part.set_error(error);
    part.set_done(is_gone);
    while (!part.done() && error.empty()) {
      part.set_data(archive.substr(static_cast<size_t>(part.offset()), 400'000));
      part.set_done(part.offset() + static_cast<int64_t>(part.data().size()) == static_cast<int64_t>(archive.size()));
      for (int twice = part.done() ? 1 : 0; twice < 2; ++twice) {  // its answer may be lost
        EXPECT_TRUE(site.gateway().SendSnapshotFiles(part).ok());
      }
      part.set_offset(part.offset() + static_cast<int64_t>(part.data().size()));
    }
    if (!error.empty()) {
      EXPECT_TRUE(site.gateway().SendSnapshotFiles(part).ok());
    }
    EXPECT_TRUE(absl::IsNotFound(site.gateway().SendSnapshotFiles(part))) << "it is complete";
  };
  std::thread sends([&] { send(""); });
  const Response got = site.Ask("GET", files, "", leaf_key);
  sends.join();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.headers.at("content-type"), "application/x-tar");
  EXPECT_TRUE(got.body == archive) << got.body.size();
  std::thread refuses([&] { send("this runner does not hold it", true); });
  const Response gone = site.Ask("GET", files, "", leaf_key);
  refuses.join();
  EXPECT_EQ(gone.status, 410);
  EXPECT_EQ(gone.json().at("error").at("code").as_string(), "files_gone");
  std::thread fails([&] { send("a disk fails"); });
  EXPECT_EQ(site.Ask("GET", files, "", leaf_key).status, 503) << "another time it may be read";
  fails.join();
}

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
      const Response response = site.Ask("POST", base + path, *body, base == "/v1" ? episode.api_key() : "");
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

TEST(HttpServer, RefusesBodiesThatAreEncoded) {
  Site site([](const auto&) { return Say("hello"); });
  const auto ask = [&](const std::string& field) {
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/ingot/v1/episodes", "{}", "", field));
    return Read(wire);
  };
  EXPECT_EQ(ask("Content-Encoding: identity\r\n").status, 201);
  const Response refused = ask("Content-Encoding: gzip\r\n");
  EXPECT_EQ(refused.status, 415);
  EXPECT_EQ(refused.headers.at("accept-encoding"), "identity");
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
TEST(HttpServer, TellsMonitorsItsHealthAndVersionAndNoMore) {
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
  EXPECT_EQ(site.Ask("GET", "/ingot/v1/status", "").json().at("active_calls").as_int64(), 0);
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

// ---- Google's paths, keys and streams ----

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

TEST(HttpServer, GivesASeparateOwnersKeyOnRequest) {
  Site site([](const auto&) { return Say("hello"); });
  EXPECT_FALSE(site.Ask("POST", "/ingot/v1/episodes", "{}").json().as_object().contains("owner_key"));
  EXPECT_EQ(site.Ask("POST", "/ingot/v1/episodes", R"({"separate_owner":"yes"})").status, 400);
  const Response opened = site.Ask("POST", "/ingot/v1/episodes", R"({"separate_owner":true})");
  ASSERT_EQ(opened.status, 201) << opened.body;
  const auto field = [&](const char* name) { return std::string(opened.json().at(name).as_string()); };
  const std::string reward = "/ingot/v1/episodes/" + field("episode_id") + "/reward";
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), field("api_key")).status, 200);
  EXPECT_EQ(site.Ask("POST", reward, R"({"reward":1})", field("api_key")).status, 403);
  EXPECT_EQ(site.Ask("POST", reward, R"({"reward":1})", field("owner_key")).status, 200);
}

TEST(HttpServer, SaysWhenToRetryWhenThereIsNoPlace) {
  Site site([](const auto&) { return Say("hello"); });
  site.admission.places = 0;
  const Response response = site.Ask("POST", "/ingot/v1/episodes", "{}");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  site.admission.SetOver();
  EXPECT_EQ(site.Ask("POST", "/ingot/v1/episodes", "{}").status, 410);
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
