// Episodes over real sockets, from their opening to their end: keys, rewards, snapshots and files.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "gateway/site.h"

namespace ingot::gateway {
namespace {

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

  // By key, and by key and URL; not by another's key, nor by the id alone, which stands in logs and records.
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), key).status, 200);
  const Response by_id = site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello());
  EXPECT_EQ(by_id.status, 401);
  EXPECT_NE(by_id.body.find("/s/KEY/v1"), std::string::npos) << by_id.body;
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
  EXPECT_EQ(site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello(), key).status, 410);
  EXPECT_EQ(site.Ask("POST", "/s/" + id + "/v1/chat/completions", Hello()).status, 401);
  EXPECT_EQ(site.pool.episode(id).signals().at("ok"), 1);
}

// A client that can be told nothing but a URL.
TEST(HttpServer, TakesAnEpisodesKeyInItsPath) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open(), other = site.Open();
  const auto path = [](const std::string& key) { return "/s/" + key + "/v1/chat/completions"; };
  EXPECT_EQ(site.Ask("POST", path(episode.api_key()), Hello()).status, 200);
  EXPECT_EQ(site.Ask("POST", path(episode.api_key()), Hello(), "a-word-that-every-client-sends").status, 200);
  EXPECT_EQ(site.Ask("POST", path(episode.api_key() + ":role=white"), Hello()).status, 200);
  EXPECT_EQ(site.Ask("POST", path("ingot-0123456789"), Hello()).status, 401);
  EXPECT_EQ(site.Ask("POST", path("ingot-" + std::string(300, '0')), Hello()).status, 404);
  EXPECT_EQ(site.Ask("POST", path(episode.episode_id()), Hello(), other.api_key()).status, 403);
  EXPECT_EQ(site.Ask("POST", path("ingot-" + episode.episode_id()), Hello(), episode.api_key()).status, 401);
  ASSERT_EQ(site.pool.calls().size(), 3u);
  for (const v1::Call& call : site.pool.calls()) EXPECT_EQ(call.episode_id(), episode.episode_id());
  EXPECT_EQ(site.pool.calls()[2].role(), "white");
}

// Players of one episode: a client that knows nothing but its key names its role there.
TEST(HttpServer, RecordsTheRoleThatAKeyOrAHeaderNames) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), episode.api_key()).status, 200);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), episode.api_key() + ":role=white").status, 200);
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/v1/chat/completions", Hello(), episode.api_key(), "X-Ingot-Role: black\r\n"));
  EXPECT_EQ(Read(wire).status, 200);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", Hello(), "another:role=white").status, 401);
  std::vector<std::string> roles;
  for (const v1::Call& call : site.pool.calls()) roles.push_back(call.role());
  EXPECT_EQ(roles, (std::vector<std::string>{"", "white", "black"}));
}

TEST(HttpServer, TakesASnapshotThatAnotherEpisodeBeginsAt) {
  Site site([](const auto&) { return Say("hello"); });
  const Response elsewhere = site.Ask("POST", "/ingot/v1/episodes", "{}");
  const auto path = [](const std::string& id) { return "/ingot/v1/episodes/" + id + "/snapshots"; };
  const std::string id(elsewhere.json().at("episode_id").as_string()), key(elsewhere.json().at("api_key").as_string());
  const Response rejected = site.Ask("POST", path(id), "", key);
  EXPECT_EQ(rejected.status, 409);
  EXPECT_EQ(rejected.json().at("error").at("code").as_string(), "no_room");
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
  EXPECT_EQ(site.Ask("POST", "/ingot/v1/episodes", R"({"from_snapshot":")" + id + ".0\"}").status, 404)
      << "an episode without snapshots";

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
  std::thread rejects([&] { send("this runner does not hold it", true); });
  const Response gone = site.Ask("GET", files, "", leaf_key);
  rejects.join();
  EXPECT_EQ(gone.status, 410);
  EXPECT_EQ(gone.json().at("error").at("code").as_string(), "files_gone");
  std::thread fails([&] { send("a disk fails"); });
  EXPECT_EQ(site.Ask("GET", files, "", leaf_key).status, 503) << "another time it may be read";
  fails.join();
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

}  // namespace
}  // namespace ingot::gateway
