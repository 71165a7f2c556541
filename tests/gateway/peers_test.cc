// Two gateways of one run: requests reach either of them, and one of them dies, is paused, or comes back.
#include <absl/strings/str_split.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/listening_socket.h"
#include "datapool/make_pool.h"
#include "gateway/fakes.h"
#include "gateway/grpc_peers.h"
#include "gateway/http_api.h"
#include "gateway/service.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

Script Say(const std::string& text, bool hold = false) {
  Script script;
  script.text = text;
  script.hold = hold;
  return script;
}

class PeersTest : public ::testing::Test {
 protected:
  // One of the gateways, with an engine of its own.
  struct Place {
    std::string role;
    std::function<Script(const v1::GenerateRequest&)> author;
    std::shared_ptr<ScriptedEngine> engine;
    std::unique_ptr<Peers> peers;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<HttpApi> api;
    std::unique_ptr<grpc::Service> service;
    std::unique_ptr<grpc::Server> server;
    std::shared_ptr<grpc::Channel> channel;
    std::atomic<bool> silent = false;
  };

  PeersTest() {
    auto pool = datapool::OpenPool(datapool::testing::QuickOptions(dir_.path()));
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    present_ = {"gateway", "gateway-1"};
    a_.role = "gateway";
    b_.role = "gateway-1";
    Start(a_);
    Start(b_);
  }
  ~PeersTest() override {
    for (Place* place : {&a_, &b_}) {
      place->engine->Release();
      place->gateway->Shutdown();
      place->server->Shutdown();
    }
  }

  void Start(Place& place) {
    Place& other = &place == &a_ ? b_ : a_;
    place.author = [&place](const auto&) { return Say("from " + place.role); };
    place.engine = std::make_shared<ScriptedEngine>([&place](const auto& request) { return place.author(request); });
    place.peers = MakeGrpcPeers({.channels = {{other.role, v1::RoleChannel([this, &other] {
                                                 return other.silent ? silence_channel_ : other.channel;
                                               })}},
                                 .present = [this]() -> absl::StatusOr<std::vector<std::string>> {
                                   base::MutexLock lock(mu_);
                                   return present_;
                                 },
                                 .deadline = std::chrono::seconds(1)});
    place.gateway = Gateway::Create({}, {.engine = place.engine,
                                         .pool = pool_.get(),
                                         .admission = &admission_,
                                         .tokenizer = TestTokenizer(),
                                         .format = TestFormat(),
                                         .name = GatewayName(place.role, std::to_string(++starts_)),
                                         .peers = place.peers.get()})
                        .value();
    place.api = std::make_unique<HttpApi>(*place.gateway);
    place.service = NewGatewayService(*place.gateway);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(place.service.get());
    place.server = builder.BuildAndStart();
    place.channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  }
  void SetPresent(std::vector<std::string> roles) {
    base::MutexLock lock(mu_);
    present_ = std::move(roles);
  }

  // A request and its answer, as far as it has come.
  struct Asked {
    std::shared_ptr<http::Exchange> exchange;
    std::shared_ptr<Flag> flag = std::make_shared<Flag>();
    std::optional<http::Reply> reply;
    std::string stream;
    bool done = false, broken = false;

    void Step() {
      flag->WaitAndClear();
      http::Output output = exchange->Send();
      if (output.reply.has_value()) reply = output.reply;
      stream += output.data;
      done = done || output.done || output.reply.has_value();
      broken = broken || output.broken;
    }
    Asked& Finish() {
      while (!done) Step();
      return *this;
    }
    // The answer's text so far. Events cut it anywhere.
    std::string Text() const {
      std::string text;
      for (const std::string& line : std::vector<std::string>(absl::StrSplit(stream, '\n'))) {
        if (!line.starts_with("data: {") || !line.ends_with("}")) continue;
        const auto event = base::ParseJson(std::string_view(line).substr(6)).value();
        const object* delta = event.at("choices").at(0).at("delta").if_object();
        if (delta == nullptr || !delta->contains("content")) continue;
        if (const auto* content = delta->at("content").if_string()) text += *content;
      }
      return text;
    }
  };
  static std::unique_ptr<Asked> Start(Place& place, const std::string& target, const value& body,
                                      const std::string& key, const std::string& method = "POST") {
    auto asked = std::make_unique<Asked>();
    asked->exchange =
        place.api->Head({.method = method, .target = target, .fields = {{"Authorization", "Bearer " + key}}}).exchange;
    asked->exchange->Body(base::PrintJson(body), [flag = asked->flag] { flag->Set(); });
    return asked;
  }
  static http::Reply Post(Place& place, const std::string& target, const value& body, const std::string& key) {
    return *Start(place, target, body, key)->Finish().reply;
  }
  static std::string ChatOf(const v1::EpisodeOpenResponse& episode) {
    return "/s/" + episode.episode_id() + "/v1/chat/completions";
  }
  static std::string TextOf(const http::Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto json = base::ParseJson(reply.body).value();
    return std::string(json.at("choices").at(0).at("message").at("content").as_string());
  }
  v1::EpisodeTree Tree(const std::string& id) {
    v1::GetEpisodeRequest request;
    request.set_episode_id(id);
    request.set_with_calls(true);
    return pool_->GetEpisode(request).value();
  }

  datapool::testing::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  TestAdmission admission_;
  // Takes connections and never answers, as the port of a stopped process.
  const base::testing::ListeningSocket silence_;
  const std::shared_ptr<grpc::Channel> silence_channel_ =
      grpc::CreateChannel(silence_.place(), grpc::InsecureChannelCredentials());
  base::Mutex mu_;
  std::vector<std::string> present_ ABSL_GUARDED_BY(mu_);
  int starts_ = 0;
  Place a_, b_;
};

TEST_F(PeersTest, ARequestIsAnsweredByTheGatewayThatServesItsEpisode) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  EXPECT_EQ(TextOf(Post(b_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key())), "from gateway");
  EXPECT_EQ(TextOf(Post(b_, "/v1/chat/completions", Body({Msg("user", "hi")}), episode.api_key())), "from gateway");
  object streamed = Body({Msg("user", "hi")});
  streamed["stream"] = true;
  const auto asked = Start(b_, ChatOf(episode), streamed, episode.api_key());
  asked->Finish();
  EXPECT_NE(asked->stream.find("[DONE]"), std::string::npos) << asked->stream;
  EXPECT_FALSE(asked->broken);
  EXPECT_EQ(Post(b_, ChatOf(episode), Body({Msg("user", "hi")}), "").status, 401) << "an id alone opens nothing";
  const std::string by_key = "/s/" + episode.api_key() + "/v1/chat/completions";
  EXPECT_EQ(TextOf(Post(b_, by_key, Body({Msg("user", "hi")}), "")), "from gateway");
  EXPECT_EQ(Post(b_, "/s/0123456789abcdef/v1/chat/completions", Body({Msg("user", "hi")}), "").status, 404);
  EXPECT_EQ(Post(b_, "/v1/chat/completions", Body({Msg("user", "hi")}), "unknown").status, 401);
  const std::string path = "/ingot/v1/episodes/" + episode.episode_id();
  EXPECT_EQ(Post(b_, path + "/reward", {{"reward", 1}}, "another").status, 403);
  EXPECT_EQ(Post(b_, path + "/reward", {{"reward", 1}}, episode.api_key()).status, 200);
  EXPECT_EQ(Post(b_, path + "/end", {{"status", "finished"}}, episode.api_key()).status, 200);
  EXPECT_EQ(Post(b_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key()).status, 410);
  const v1::EpisodeTree tree = Tree(episode.episode_id());
  EXPECT_EQ(tree.calls_size(), 4);
  EXPECT_EQ(tree.episode().gateway(), "gateway:1");
  EXPECT_EQ(tree.episode().gateway_token(), 1);
  EXPECT_EQ(b_.gateway->Status().calls(), 3) << "two that no gateway knows, and one of an ended episode";
}

TEST_F(PeersTest, ARequestWithOtherBytesThanUtf8IsPassedOn) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  EXPECT_EQ(TextOf(Post(b_, ChatOf(episode) + "?note=\xE4", Body({Msg("user", "hi")}), episode.api_key())),
            "from gateway");
}

TEST_F(PeersTest, AnEpisodeGoesOnWhereItsGatewayIsGone) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key())), "from gateway");
  SetPresent({"gateway-1"});
  const auto longer = Body({Msg("user", "hi"), Msg("assistant", "from gateway"), Msg("user", "and now?")});
  EXPECT_EQ(TextOf(Post(b_, ChatOf(episode), longer, episode.api_key())), "from gateway-1");
  const v1::EpisodeTree tree = Tree(episode.episode_id());
  ASSERT_EQ(tree.calls_size(), 2);
  EXPECT_EQ(tree.calls(1).parent_call_id(), tree.calls(0).call_id()) << "the history came along";
  EXPECT_EQ(tree.calls(1).sequence(), 1);
  EXPECT_EQ(tree.episode().gateway_token(), 2);
  // Its next process finds nothing to take.
  SetPresent({"gateway", "gateway-1"});
  ASSERT_TRUE(a_.gateway->Recover().ok());
  EXPECT_EQ(Tree(episode.episode_id()).episode().gateway_token(), 2);
}

TEST_F(PeersTest, EpisodesOfAGatewayThatIsGoneAreFoundByTheirKeys) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  SetPresent({"gateway-1"});
  EXPECT_EQ(TextOf(Post(b_, "/v1/chat/completions", Body({Msg("user", "hi")}), episode.api_key())), "from gateway-1");
}

// The process is stopped in the middle of a stream, and goes on after its episode went on elsewhere.
TEST_F(PeersTest, APausedGatewayWritesNothingIntoATakenEpisode) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key())), "from gateway");
  const auto longer = Body({Msg("user", "hi"), Msg("assistant", "from gateway"), Msg("user", "and now?")});
  a_.author = [](const auto&) { return Say("too late", /*hold=*/true); };
  object streamed = longer;
  streamed["stream"] = true;
  const auto cut = Start(a_, ChatOf(episode), streamed, episode.api_key());
  while (cut->Text().find("late") == std::string::npos) cut->Step();

  a_.silent = true;
  EXPECT_EQ(TextOf(Post(b_, ChatOf(episode), longer, episode.api_key())), "from gateway-1");
  EXPECT_EQ(Tree(episode.episode_id()).calls_size(), 2);

  a_.silent = false;
  a_.engine->Release();
  cut->Finish();
  EXPECT_EQ(cut->stream.find("[DONE]"), std::string::npos) << cut->stream;
  EXPECT_NE(cut->stream.find("could not be recorded"), std::string::npos) << cut->stream;
  const v1::EpisodeTree tree = Tree(episode.episode_id());
  ASSERT_EQ(tree.calls_size(), 2);
  EXPECT_EQ(tree.calls(1).parent_call_id(), tree.calls(0).call_id());
  EXPECT_EQ(tree.episode().gateway(), "gateway-1:2");
  // It knows by now, and passes requests on.
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), longer, episode.api_key())), "from gateway-1");
  EXPECT_EQ(Tree(episode.episode_id()).calls_size(), 3);
}

TEST_F(PeersTest, APausedGatewayNeitherRewardsNorEndsATakenEpisode) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  a_.silent = true;
  EXPECT_EQ(TextOf(Post(b_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key())), "from gateway-1");
  a_.silent = false;
  const absl::Status rewarded = a_.gateway->RewardEpisode(episode.episode_id(), episode.api_key(), 1.0, {});
  EXPECT_EQ(ErrorCodeOf(rewarded), "episode_elsewhere") << rewarded;
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode.episode_id());
  end.set_api_key(episode.api_key());
  end.set_state(v1::EPISODE_FAILED);
  EXPECT_EQ(HttpStatusOf(a_.gateway->EndEpisode(end).status()), 503) << "the other one answers that it serves it";
  EXPECT_EQ(Tree(episode.episode_id()).episode().state(), v1::EPISODE_OPEN);
  ASSERT_TRUE(b_.gateway->EndEpisode(end).ok());
  EXPECT_EQ(Tree(episode.episode_id()).episode().state(), v1::EPISODE_FAILED);
  EXPECT_EQ(admission_.ended().size(), 1u);
}

TEST_F(PeersTest, ARepeatedOpeningFindsItsEpisodeAtTheOtherGateway) {
  const auto open = [&](Place& place) {
    HttpApi& api = *place.api;
    Asked asked;
    asked.exchange = api.Head({.method = "POST",
                               .target = "/ingot/v1/episodes",
                               .fields = {{"Idempotency-Key", "a key that nobody guesses"}}})
                         .exchange;
    asked.exchange->Body("{}", [flag = asked.flag] { flag->Set(); });
    asked.Finish();
    EXPECT_EQ(asked.reply->status, 201) << asked.reply->body;
    return std::string(base::ParseJson(asked.reply->body).value().at("episode_id").as_string());
  };
  const std::string first = open(a_);
  EXPECT_EQ(open(b_), first);
  EXPECT_EQ(open(a_), first);
  v1::EpisodeOpenRequest request;
  request.set_idempotency_key("a key that nobody guesses");
  EXPECT_EQ(ErrorCodeOf(b_.gateway->OpenEpisode(request).status()), "episode_elsewhere");
  EXPECT_EQ(admission_.admitted(), 1);
}

// The gateway died before its answer came, or cannot be reached. Its next process goes on with its episodes.
TEST_F(PeersTest, ARepeatedOpeningTakesItsEpisodeFromAGatewayThatGivesNoAnswer) {
  v1::EpisodeOpenRequest request;
  request.set_idempotency_key("a key that nobody guesses");
  request.set_runner("agents");
  const auto first = a_.gateway->OpenEpisode(request);
  ASSERT_TRUE(first.ok()) << first.status();
  request.set_idempotency_key("another key that nobody guesses");
  const auto second = a_.gateway->OpenEpisode(request);
  ASSERT_TRUE(second.ok()) << second.status();
  a_.silent = true;
  const auto again = b_.gateway->OpenEpisode(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->episode_id(), second->episode_id());
  EXPECT_EQ(again->api_key(), second->api_key());
  SetPresent({"gateway-1"});  // its lease is over
  request.set_idempotency_key("a key that nobody guesses");
  const auto later = b_.gateway->OpenEpisode(request);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->episode_id(), first->episode_id());
  EXPECT_EQ(admission_.admitted(), 2) << "an opening was made twice";
  request.set_idempotency_key("a third key that nobody guesses");
  ASSERT_TRUE(b_.gateway->OpenEpisode(request).ok());
  EXPECT_EQ(admission_.admitted(), 3);
}

TEST_F(PeersTest, ASnapshotIsAskedForThroughEitherGateway) {
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  open.set_incarnation("first");
  const auto episode = a_.gateway->OpenEpisode(open).value();
  const std::string path = "/ingot/v1/episodes/" + episode.episode_id() + "/snapshots";
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Body({Msg("user", "hi")}), episode.api_key())), "from gateway");
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  // Asks at `at`. The runner hears of it and answers at `server`, which serves the episode, and in vain at `other`.
  const auto snapshot = [&](Place& at, Place& server, Place* other) {
    const auto asked = Start(at, path, object(), episode.api_key());
    next.set_wait_ms(20'000);
    const v1::NextSnapshotResponse ask = server.gateway->NextSnapshot(next).value();
    EXPECT_EQ(ask.episode_id(), episode.episode_id());
    v1::SnapshotTakenRequest taken;
    taken.set_snapshot_id(ask.snapshot_id());
    if (other != nullptr) {
      next.set_wait_ms(0);
      EXPECT_EQ(other->gateway->NextSnapshot(next)->episode_id(), "");
      EXPECT_TRUE(absl::IsNotFound(other->gateway->SnapshotTaken(taken)));
    }
    EXPECT_TRUE(server.gateway->SnapshotTaken(taken).ok());
    const http::Reply reply = *asked->Finish().reply;
    EXPECT_EQ(reply.status, 201) << reply.body;
    return std::string(base::ParseJson(reply.body).value().at("snapshot_id").as_string());
  };
  EXPECT_EQ(snapshot(b_, a_, &b_), episode.episode_id() + ".1");
  EXPECT_EQ(Post(b_, path, object(), "another").status, 403);
  v1::EpisodeSnapshotRequest direct;
  direct.set_episode_id(episode.episode_id());
  direct.set_api_key(episode.api_key());
  EXPECT_EQ(ErrorCodeOf(b_.gateway->SnapshotEpisode(direct).status()), "episode_elsewhere");
  // Where its gateway is gone, the next one takes the episode and asks the runner itself.
  SetPresent({"gateway-1"});
  EXPECT_EQ(snapshot(b_, b_, nullptr), episode.episode_id() + ".1");
  EXPECT_EQ(Tree(episode.episode_id()).episode().gateway(), "gateway-1:2");
}

TEST_F(PeersTest, ASnapshotsFilesAreReadThroughEitherGateway) {
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  const auto trunk = a_.gateway->OpenEpisode(open).value();
  EXPECT_EQ(TextOf(Post(a_, ChatOf(trunk), Body({Msg("user", "hi")}), trunk.api_key())), "from gateway");
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  next.set_wait_ms(20'000);
  const auto asked = Start(a_, "/ingot/v1/episodes/" + trunk.episode_id() + "/snapshots", object(), trunk.api_key());
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id(a_.gateway->NextSnapshot(next)->snapshot_id());
  ASSERT_TRUE(a_.gateway->SnapshotTaken(taken).ok());
  ASSERT_EQ(asked->Finish().reply->status, 201) << asked->reply->body;
  v1::EpisodeOpenRequest from;
  from.set_from_snapshot(taken.snapshot_id());
  const auto leaf = b_.gateway->OpenEpisode(from).value();
  const std::string files = "/ingot/v1/episodes/" + leaf.episode_id() + "/files";
  const std::string archive(700'000, 'x');
  for (Place* const at : {&a_, &b_}) {
    const auto reader = Start(*at, files, object(), leaf.api_key(), "GET");
    const v1::NextSnapshotResponse ask = b_.gateway->NextSnapshot(next).value();
    EXPECT_EQ(ask.snapshot_id(), taken.snapshot_id());
    v1::SnapshotFilesPart part;
    part.set_transfer_id(ask.transfer_id());
    EXPECT_TRUE(absl::IsNotFound(a_.gateway->SendSnapshotFiles(part))) << "the leaf is another gateway's";
    for (; !part.done(); part.set_offset(part.offset() + static_cast<int64_t>(part.data().size()))) {
      part.set_data(archive.substr(static_cast<size_t>(part.offset()), 300'000));
      part.set_done(static_cast<size_t>(part.offset()) + part.data().size() == archive.size());
      EXPECT_TRUE(b_.gateway->SendSnapshotFiles(part).ok());
    }
    reader->Finish();
    EXPECT_TRUE(reader->stream == archive) << at->role << ": " << reader->stream.size();
    EXPECT_EQ(Start(*at, files, object(), trunk.api_key(), "GET")->Finish().reply->status, 403) << at->role;
  }
}

TEST_F(PeersTest, AStreamBreaksOffWithTheGatewayBehindIt) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  a_.author = [](const auto&) { return Say("half of it", /*hold=*/true); };
  object streamed = Body({Msg("user", "hi")});
  streamed["stream"] = true;
  const auto asked = Start(b_, ChatOf(episode), streamed, episode.api_key());
  while (asked->Text().find("half") == std::string::npos) asked->Step();
  a_.server->Shutdown(std::chrono::system_clock::now());
  asked->Finish();
  EXPECT_TRUE(asked->broken);
  EXPECT_EQ(asked->stream.find("[DONE]"), std::string::npos) << asked->stream;
}

TEST_F(PeersTest, ARunnerThatIsStartedAgainEndsItsEpisodesOfAllGateways) {
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  open.set_incarnation("first");
  const auto first = a_.gateway->OpenEpisode(open).value();
  open.set_incarnation("second");
  ASSERT_TRUE(b_.gateway->OpenEpisode(open).ok());
  EXPECT_EQ(Tree(first.episode_id()).episode().state(), v1::EPISODE_FENCED);
}

}  // namespace
}  // namespace ingot::gateway
