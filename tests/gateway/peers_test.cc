// Two gateways of one run: requests reach either of them, and one of them dies, is paused, or comes back.
#include "gateway/two_gateways.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;
using PeersTest = TwoGateways;

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

// The peers of a gateway that has none: no question may reach anybody.
class NoPeers final : public Peers {
 public:
  absl::StatusOr<std::vector<std::string>> Present() override { return Asked(); }
  std::vector<std::string> Others() const override { return {}; }
  absl::StatusOr<v1::ServesResponse> Serves(const std::string&, const v1::ServesRequest&) override { return Asked(); }
  std::unique_ptr<ForwardedCall> Forward(const std::string&, v1::ForwardRequest, std::function<bool()>,
                                         OnPart) override {
    return nullptr;
  }

 private:
  static absl::Status Asked() {
    ADD_FAILURE() << "somebody was asked";
    return absl::UnavailableError("there is nobody");
  }
};

TEST_F(PeersTest, TheOnlyGatewayAsksNobody) {
  NoPeers nobody;
  auto gateway = Gateway::Create({}, {.engine = a_.engine,
                                      .pool = spied_.get(),
                                      .admission = &admission_,
                                      .tokenizer = TestTokenizer(),
                                      .format = TestFormat(),
                                      .name = "gateway:lone",
                                      .peers = &nobody})
                     .value();
  ASSERT_TRUE(gateway->Recover().ok());
  v1::EpisodeOpenRequest open;
  open.set_idempotency_key("a key that nobody guesses");
  const auto episode = gateway->OpenEpisode(open).value();
  EXPECT_EQ(*gateway->Place({.api_key = "unknown", .episode = {}}), "");
  EXPECT_EQ(*gateway->Place({.api_key = {}, .episode = "unknown"}), "");
  EXPECT_TRUE(gateway->RewardEpisode(episode.episode_id(), episode.api_key(), 1.0, {}).ok());
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
