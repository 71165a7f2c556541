// A request over HTTP reaches the pool, and its record survives a restart.
#include <gtest/gtest.h>

#include "datapool/make_pool.h"
#include "gateway/fakes.h"
#include "gateway/http/http_api.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

// The gateway's HTTP without sockets, on a real pool.
class PoolTest : public ::testing::Test {
 protected:
  PoolTest()
      : engine_(std::make_shared<ScriptedEngine>([](const auto&) {
          Script script;
          script.text = "ok";
          return script;
        })) {
    Open();
  }
  void Open() {
    pool_.reset();
    auto pool = datapool::OpenPool(datapool::testing::QuickOptions(dir_.path()));
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  std::unique_ptr<Gateway> NewGateway() {
    return Gateway::Create({}, {.engine = engine_,
                                .pool = pool_.get(),
                                .admission = &admission_,
                                .tokenizer = TestTokenizer(),
                                .format = TestFormat()})
        .value();
  }
  struct Reply {
    int status = 0;
    value body;
  };
  Reply Post(HttpApi& api, const std::string& target, const value& body, const std::string& key = "") {
    const auto exchange =
        api.Head({.method = "POST", .target = target, .fields = {{"Authorization", "Bearer " + key}}}).exchange;
    auto flag = std::make_shared<Flag>();
    exchange->Body(base::PrintJson(body), [flag] { flag->Set(); });
    while (true) {
      flag->WaitAndClear();
      const http::Output output = exchange->Send();
      if (output.reply.has_value()) return {output.reply->status, base::ParseJson(output.reply->body).value()};
    }
  }
  v1::EpisodeTree Tree(const std::string& id) {
    v1::GetEpisodeRequest request;
    request.set_episode_id(id);
    request.set_with_calls(true);
    return pool_->GetEpisode(request).value();
  }

  datapool::testing::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  std::shared_ptr<ScriptedEngine> engine_;
  TestAdmission admission_;
};

TEST_F(PoolTest, RewardsOfCallsGetFromHttpIntoTheRecord) {
  std::string id, key;
  {
    auto gateway = NewGateway();
    HttpApi api(*gateway);
    const Reply opened = Post(api, "/ingot/v1/episodes",
                              {{"scaffold", "s"}, {"metadata", {{"run", 7}}}, {"limits", {{"max_calls", 9}}}});
    ASSERT_EQ(opened.status, 201) << opened.body;
    id = std::string(opened.body.at("episode_id").as_string());
    key = std::string(opened.body.at("api_key").as_string());
    std::vector<std::string> replies;
    for (const char* text : {"a", "b"}) {
      const Reply reply = Post(api, "/v1/chat/completions", Body({Msg("user", text)}), key);
      ASSERT_EQ(reply.status, 200);
      replies.emplace_back(reply.body.at("id").as_string());
    }
    const std::string reward = "/ingot/v1/episodes/" + id + "/reward";
    EXPECT_EQ(Post(api, reward, {{"reward", 1}}, key).status, 200);
    EXPECT_EQ(Post(api, reward, {{"call_id", replies[0]}, {"reward", 0.5}}, key).status, 200);
    EXPECT_EQ(Post(api, reward, {{"turn", 1}, {"reward", -0.25}}, key).status, 200);
    EXPECT_EQ(Post(api, reward, {{"turn", 2}, {"reward", 1}}, key).status, 404);
    EXPECT_EQ(Post(api, reward, {{"turn", 1}, {"reward", 1}}, "another").status, 403);
  }
  Open();  // gateway and pool are started again: acknowledged calls are there
  {
    auto gateway = NewGateway();
    ASSERT_TRUE(gateway->Recover().ok());
    HttpApi api(*gateway);
    EXPECT_EQ(Post(api, "/ingot/v1/episodes/" + id + "/end", {{"status", "finished"}}, key).status, 200);
  }
  for (int round = 0; round < 2; ++round) {
    const v1::EpisodeTree tree = Tree(id);
    ASSERT_EQ(tree.calls_size(), 2);
    const auto& rewards = tree.episode().call_rewards();
    ASSERT_EQ(rewards.size(), 2u);
    EXPECT_EQ(rewards.at(tree.calls(0).call_id()), 0.5);
    EXPECT_EQ(rewards.at(tree.calls(1).call_id()), -0.25);
    EXPECT_EQ(tree.episode().reward(), 1);
    EXPECT_EQ(tree.episode().metadata_json(), R"({"run":7})");
    EXPECT_EQ(tree.episode().limits().max_calls(), 9);
    Open();  // a restart
  }
  EXPECT_EQ(admission_.ended().at(0).reward(), 1.25);
}

// Somebody who is no gateway ends an episode in the pool, as a stranger without the run's token cannot any more.
TEST_F(PoolTest, AnOutcomeThatIsNotTheGatewaysDoesNotCountAndHoldsNothingUp) {
  auto gateway = NewGateway();
  const auto rewarded = gateway->OpenEpisode({}).value(), plain = gateway->OpenEpisode({}).value(),
             lost = gateway->OpenEpisode({}).value();
  ASSERT_TRUE(gateway->RewardEpisode(rewarded.episode_id(), rewarded.api_key(), 0.5, {}).ok());
  v1::StoreEndRequest stranger;
  stranger.set_state(v1::EPISODE_FINISHED);
  stranger.set_reward(777);
  for (const auto* episode : {&rewarded, &plain, &lost}) {
    stranger.set_episode_id(episode->episode_id());
    ASSERT_TRUE(pool_->StoreEnd(stranger).ok());
  }
  EXPECT_FALSE(gateway->RewardEpisode(plain.episode_id(), plain.api_key(), 1, {}).ok());
  const auto end = [&](const v1::EpisodeOpenResponse& episode, v1::EpisodeState state) {
    v1::EpisodeEndRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.set_state(state);
    return gateway->EndEpisode(request).status();
  };
  const absl::Status rejected = end(rewarded, v1::EPISODE_FINISHED);
  EXPECT_EQ(HttpStatusOf(rejected), 409);
  EXPECT_NE(rejected.message().find("not by its gateway, as EPISODE_FINISHED with a return of 777"), std::string::npos)
      << rejected;
  EXPECT_EQ(HttpStatusOf(end(plain, v1::EPISODE_FAILED)), 409);
  EXPECT_EQ(HttpStatusOf(end(lost, v1::EPISODE_FENCED)), 409);
  // The scheduler is told, so that the samples are tried again at once; of an end without an outcome the pool's stays.
  const auto reported = admission_.ended();
  ASSERT_EQ(reported.size(), 3u);
  for (const int i : {0, 1}) {
    EXPECT_EQ(reported[i].state(), v1::EPISODE_FENCED);
    EXPECT_EQ(reported[i].reward(), 0);
  }
  EXPECT_EQ(reported[2].state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(gateway->Status().open_episodes(), 0) << "nothing is tried again for ever";
  EXPECT_NE(gateway->MetricsText().find("ingot_gateway_episodes_ended_elsewhere_total 3\n"), std::string::npos);
}

// No record ends with the prefix that a client kept, so the pool must get it with the call that continues it.
TEST_F(PoolTest, StoresACallThatContinuesAKeptPrefix) {
  auto gateway = NewGateway();
  const auto episode = gateway->OpenEpisode({}).value();
  const auto ask = [&](base::json::array messages, bool stream) {
    object body = Body(std::move(messages));
    body["stream"] = stream;
    auto flag = std::make_shared<Flag>();
    const auto answer = gateway->StartAnswer({.api_key = episode.api_key(), .episode = {}}, ChatDialect(),
                                             {.body = base::PrintJson(body), .headers = {}}, [flag] { flag->Set(); });
    Answer::Output out;
    while (!(out = answer->TakeOutput()).done) flag->WaitAndClear();
    return out.status;
  };
  ASSERT_TRUE(ask({Msg("user", "hi")}, true).ok());
  ASSERT_TRUE(ask({Msg("user", "hi"), Msg("assistant", "o"), Msg("user", "go on")}, false).ok());
  const v1::EpisodeTree tree = Tree(episode.episode_id());
  ASSERT_EQ(tree.calls_size(), 2);
  EXPECT_EQ(tree.calls(1).parent_call_id(), tree.calls(0).call_id());
}

}  // namespace
}  // namespace ingot::gateway
