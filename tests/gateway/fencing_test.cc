// A gateway whose episode another one took believes that it still serves it. What it answers must not be believed by anybody.
#include <thread>

#include "gateway/two_gateways.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

class FencingTest : public TwoGateways {
 protected:
  static v1::EpisodeEndRequest EndOf(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state) {
    v1::EpisodeEndRequest end;
    end.set_episode_id(episode.episode_id());
    end.set_api_key(episode.api_key());
    end.set_state(state);
    return end;
  }
  // As the runner's, of an agent that is to post its own reward.
  static v1::EpisodeEndRequest EndByDefault(const v1::EpisodeOpenResponse& episode) {
    v1::EpisodeEndRequest end = EndOf(episode, v1::EPISODE_FINISHED);
    end.mutable_unless_rewarded()->set_detail("the agent has posted no reward");
    (*end.mutable_unless_rewarded()->mutable_signals())["answer_malformed"] = 1;
    return end;
  }
  static object Hello() { return Body({Msg("user", "hi")}); }
  static std::string CodeOf(const http::Reply& reply) {
    const auto json = base::ParseJson(reply.body).value();
    const value* error = base::Find(json, "error");
    return error == nullptr ? "" : std::string(error->at("code").as_string());
  }
  v1::Episode Stored(const v1::EpisodeOpenResponse& episode) { return Tree(episode.episode_id()).episode(); }
  absl::Status Reward(Place& place, const v1::EpisodeOpenResponse& episode, double reward) {
    return place.gateway->RewardEpisode(episode.episode_id(), episode.api_key(), reward, {});
  }
};

// The agent was told that its reward is stored, and the runner asks the gateway that does not know it.
TEST_F(FencingTest, AnAcknowledgedRewardIsNeverMissing) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  TakeOver(episode);
  ASSERT_TRUE(Reward(b_, episode, 0.75).ok());
  const absl::Status late = a_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FINISHED)).status();
  EXPECT_EQ(ErrorCodeOf(late), "episode_elsewhere") << late;
  EXPECT_EQ(Stored(episode).state(), v1::EPISODE_OPEN);
  ASSERT_TRUE(b_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FINISHED)).ok());
  EXPECT_EQ(Stored(episode).reward(), 0.75);
  ASSERT_EQ(admission_.ended().size(), 1u);
  EXPECT_EQ(admission_.ended()[0].reward(), 0.75);
}

TEST_F(FencingTest, ADefaultReplacesNoAcknowledgedReward) {
  const auto rewarded = a_.gateway->OpenEpisode({}).value(), none = a_.gateway->OpenEpisode({}).value();
  for (const auto& episode : {rewarded, none}) TakeOver(episode);
  ASSERT_TRUE(Reward(b_, rewarded, 0.75).ok());
  for (const auto& episode : {rewarded, none}) {
    EXPECT_EQ(HttpStatusOf(a_.gateway->EndEpisode(EndByDefault(episode)).status()), 503);
    ASSERT_TRUE(b_.gateway->EndEpisode(EndByDefault(episode)).ok());
    // The answer was lost, so that the runner asks again, also the other gateway.
    for (Place* place : {&a_, &b_}) EXPECT_TRUE(place->gateway->EndEpisode(EndByDefault(episode)).ok()) << place->role;
  }
  EXPECT_EQ(Stored(rewarded).reward(), 0.75);
  EXPECT_EQ(Stored(rewarded).detail(), "");
  EXPECT_TRUE(Stored(none).has_reward());
  EXPECT_EQ(Stored(none).reward(), 0);
  EXPECT_EQ(Stored(none).detail(), "the agent has posted no reward");
  EXPECT_EQ(Stored(none).signals().at("answer_malformed"), 1);
  std::map<int32_t, double> reported;
  for (const auto& ended : admission_.ended()) reported[ended.ref().sample_index()] = ended.reward();
  EXPECT_EQ(reported, (std::map<int32_t, double>{{0, 0.75}, {1, 0}}));
}

// The answer of the pool was lost, so that the gateway answered its client with an error, and the reward is stored.
TEST_F(FencingTest, AStoredRewardCountsWhoseAnswerWasLost) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  v1::StoreRewardRequest stored;
  stored.set_episode_id(episode.episode_id());
  stored.set_reward(0.5);
  stored.set_gateway_token(1);
  ASSERT_TRUE(pool_->StoreReward(stored).ok());
  ASSERT_TRUE(a_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FINISHED)).ok());
  EXPECT_EQ(Stored(episode).reward(), 0.5);
  EXPECT_EQ(admission_.ended().at(0).reward(), 0.5);
}

// A process of the pool was stuck, so that the client's reward was refused. The client posted others, which another process
// of the pool took.
TEST_F(FencingTest, ARewardThatWasGivenUpReplacesNoLaterOne) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  const auto lose = [&](Place& place, double reward) {
    spied_->holds_rewards = true;
    EXPECT_EQ(HttpStatusOf(Reward(place, episode, reward)), 504);
    spied_->holds_rewards = false;
  };
  const auto expect_kept = [&](double reward) {
    for (const auto& late : spied_->held_rewards) EXPECT_FALSE(pool_->StoreReward(late).ok()) << late.reward();
    EXPECT_EQ(Stored(episode).reward(), reward);
  };
  lose(a_, 0.25);
  lose(a_, 0.5);
  ASSERT_TRUE(Reward(a_, episode, 0.75).ok());
  expect_kept(0.75);
  lose(a_, 0.125);
  const int64_t number = Stored(episode).reward_number();
  TakeOver(episode);
  lose(b_, 0.625);
  ASSERT_TRUE(Reward(b_, episode, 1).ok());
  EXPECT_GT(Stored(episode).reward_number(), number);
  expect_kept(1);
}

// The gateway that the client reached was slow to forward it.
TEST_F(FencingTest, AForwardedRewardWhoseClientHasGoneIsNotStored) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  const std::string path = "/ingot/v1/episodes/" + episode.episode_id() + "/reward";
  ASSERT_TRUE(Reward(a_, episode, 0.75).ok());
  for (const bool gone : {true, false}) {
    const auto late = Start(b_, path, object{{"reward", 0.25}}, episode.api_key(), "POST", [gone] { return gone; });
    EXPECT_EQ(late->Finish().reply->status == 200, !gone) << late->reply->body;
    EXPECT_EQ(Stored(episode).reward(), gone ? 0.75 : 0.25);
  }
}

TEST_F(FencingTest, AnAcknowledgedCallIsNeverUnknown) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  TakeOver(episode);
  const http::Reply answered = Post(b_, ChatOf(episode), Hello(), episode.api_key());
  ASSERT_EQ(answered.status, 200) << answered.body;
  const std::string path = "/ingot/v1/episodes/" + episode.episode_id() + "/reward";
  const object posted{{"turn", 0}, {"reward", 1}};
  const http::Reply late = Post(a_, path, posted, episode.api_key());
  EXPECT_EQ(late.status, 503) << late.body;
  EXPECT_EQ(CodeOf(late), "episode_elsewhere");
  EXPECT_EQ(Post(a_, path, posted, episode.api_key()).status, 200) << "it knows by now, and passes it on";
  EXPECT_EQ(Stored(episode).call_rewards_size(), 1);
}

TEST_F(FencingTest, AnEarlierAnswerIsNeverUnknown) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  TakeOver(episode);
  const std::string path = "/s/" + episode.episode_id() + "/v1/responses";
  const http::Reply first = Post(b_, path, {{"model", "m"}, {"input", "hi"}}, episode.api_key());
  ASSERT_EQ(first.status, 200) << first.body;
  const std::string id(base::ParseJson(first.body).value().at("output").at(0).at("id").as_string());
  const object reference{{"model", "m"},
                         {"input", array{object{{"type", "item_reference"}, {"id", id}},
                                         object{{"role", "user"}, {"content", "and now?"}}}}};
  const http::Reply late = Post(a_, path, reference, episode.api_key());
  EXPECT_EQ(late.status, 503) << late.body;
  EXPECT_EQ(CodeOf(late), "episode_elsewhere");
}

// It was about to end the episode when it was paused.
TEST_F(FencingTest, AnEpisodeThatGoesOnIsNeverOver) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  spied_->away = true;
  EXPECT_FALSE(a_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FAILED)).ok());
  EXPECT_EQ(CodeOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "pool_unreachable") << "nobody knows";
  spied_->away = false;
  EXPECT_EQ(Post(a_, ChatOf(episode), Hello(), episode.api_key()).status, 410) << "it is ending there";
  TakeOver(episode);
  const http::Reply late = Post(a_, ChatOf(episode), Hello(), episode.api_key());
  EXPECT_EQ(late.status, 503) << late.body;
  EXPECT_EQ(CodeOf(late), "episode_elsewhere");
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "from gateway-1");
}

TEST_F(FencingTest, ATakeWhoseAnswerIsLostIsFinished) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  spied_->lost_takes = 1;
  EXPECT_FALSE(b_.gateway->Recover("gateway").ok());
  EXPECT_EQ(Tree(episode.episode_id()).episode().gateway(), b_name());
  ASSERT_TRUE(b_.gateway->Recover("gateway").ok());
  v1::ServesRequest question;
  question.set_episode_id(episode.episode_id());
  EXPECT_EQ(b_.gateway->Serves(question).episode_id(), episode.episode_id());
}

TEST_F(FencingTest, AnAbandonedEpisodeIsEndedOnceThePoolIsBack) {
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  open.set_incarnation("first");
  const auto episode = a_.gateway->OpenEpisode(open).value();
  spied_->away = true;
  open.set_incarnation("second");
  ASSERT_TRUE(a_.gateway->OpenEpisode(open).ok());
  EXPECT_EQ(Stored(episode).state(), v1::EPISODE_OPEN);
  spied_->away = false;
  a_.gateway->Tick();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Stored(episode).state() == v1::EPISODE_OPEN && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(Stored(episode).state(), v1::EPISODE_FENCED);
}

TEST_F(FencingTest, ACallInFlightIsNotToldOfAnEndThatThePoolRejects) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  a_.author = [](const auto&) { return Say("half of it", /*hold=*/true); };
  const auto asked = Start(a_, ChatOf(episode), Hello(), episode.api_key());
  a_.engine->WaitForHeld(1);
  TakeOver(episode);
  EXPECT_EQ(HttpStatusOf(a_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FAILED)).status()), 503);
  asked->Finish();
  EXPECT_EQ(asked->reply->status, 503) << asked->reply->body;
  EXPECT_EQ(Stored(episode).state(), v1::EPISODE_OPEN);
}

TEST_F(FencingTest, ALimitOfAGatewayThatLostTheEpisodeIsNone) {
  v1::EpisodeOpenRequest open;
  open.mutable_limits()->set_max_calls(1);
  const auto episode = a_.gateway->OpenEpisode(open).value();
  a_.author = [](const auto&) { return Say("half of it", /*hold=*/true); };
  const auto asked = Start(a_, ChatOf(episode), Hello(), episode.api_key());
  a_.engine->WaitForHeld(1);
  EXPECT_EQ(Post(a_, ChatOf(episode), Hello(), episode.api_key()).status, 400) << "its one call is in flight";
  TakeOver(episode);
  EXPECT_EQ(Post(a_, ChatOf(episode), Hello(), episode.api_key()).status, 503);
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "from gateway-1");
  EXPECT_EQ(Post(a_, ChatOf(episode), Hello(), episode.api_key()).status, 400);
  a_.engine->Release();
  asked->Finish();
}

TEST_F(FencingTest, ASnapshotIsOfAnEpisodeThatMakesNoCallsElsewhere) {
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  const auto episode = a_.gateway->OpenEpisode(open).value();
  const std::string path = "/ingot/v1/episodes/" + episode.episode_id() + "/snapshots";
  const auto asked = Start(a_, path, object(), episode.api_key());
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  next.set_wait_ms(20'000);
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id(a_.gateway->NextSnapshot(next)->snapshot_id());
  TakeOver(episode);
  ASSERT_TRUE(a_.gateway->SnapshotTaken(taken).ok());
  asked->Finish();
  EXPECT_EQ(asked->reply->status, 503) << asked->reply->body;
}

// The request waits at the trunk's fork, and would wait for ever at a gateway that nobody asks any more.
TEST_F(FencingTest, RequestsAtTheGateOfALostEpisodeGoOn) {
  admission_.change = [](const auto&, v1::Ticket& ticket) { ticket.set_fork_at(1); };
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  open.set_can_fork(true);
  const auto episode = a_.gateway->OpenEpisode(open).value();
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "from gateway");
  const auto waits = Start(a_, ChatOf(episode), Hello(), episode.api_key());
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  next.set_wait_ms(20'000);
  EXPECT_TRUE(a_.gateway->NextSnapshot(next)->ends());  // so it waits there
  TakeOver(episode);
  EXPECT_EQ(ErrorCodeOf(Reward(a_, episode, 1)), "episode_elsewhere");
  EXPECT_EQ(waits->Finish().reply->status, 503) << waits->reply->body;
}

TEST_F(FencingTest, ARunnerIsNotAskedToEndAnEpisodeThatIsElsewhere) {
  admission_.change = [](const auto&, v1::Ticket& ticket) { ticket.set_fork_at(1); };
  v1::EpisodeOpenRequest open;
  open.set_runner("agents");
  open.set_can_fork(true);
  const auto episode = a_.gateway->OpenEpisode(open).value();
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "from gateway");
  TakeOver(episode);
  const auto waits = Start(a_, ChatOf(episode), Hello(), episode.api_key());
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!waits->exchange->Send().reply.has_value()) {
    ASSERT_EQ(a_.gateway->NextSnapshot(next)->episode_id(), "");
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the request still waits at the gate of the lost episode";
    std::this_thread::yield();
  }
}

TEST_F(FencingTest, ARepeatedOpeningIsNotAnsweredByAGatewayThatLostTheEpisode) {
  v1::EpisodeOpenRequest open;
  open.set_idempotency_key("a key that nobody guesses");
  const auto episode = a_.gateway->OpenEpisode(open).value();
  EXPECT_EQ(a_.gateway->OpenEpisode(open)->episode_id(), episode.episode_id());
  TakeOver(episode);
  EXPECT_EQ(ErrorCodeOf(a_.gateway->OpenEpisode(open).status()), "episode_elsewhere");
  EXPECT_EQ(b_.gateway->OpenEpisode(open)->episode_id(), episode.episode_id());
  EXPECT_EQ(admission_.admitted(), 1);
}

// By key alone: the gateway that answers "mine" may have lost it.
TEST_F(FencingTest, AKeyLeadsToTheGatewayThatThePoolNames) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  v1::TakeOverEpisodeRequest take;  // by a third gateway, which has left the run since
  take.set_episode_id(episode.episode_id());
  take.set_gateway("gateway-2:9");
  take.set_gateway_token(2);
  ASSERT_TRUE(pool_->TakeOverEpisode(take).ok());
  EXPECT_EQ(TextOf(Post(b_, "/v1/chat/completions", Hello(), episode.api_key())), "from gateway-1");
  EXPECT_EQ(Stored(episode).gateway_token(), 3);
}

TEST_F(FencingTest, KeysOfAGatewayThatIsGoneAreFoundOneByOne) {
  const auto first = a_.gateway->OpenEpisode({}).value(), second = a_.gateway->OpenEpisode({}).value();
  SetPresent({"gateway-1"});
  for (const auto& episode : {first, second}) {
    EXPECT_EQ(TextOf(Post(b_, "/v1/chat/completions", Hello(), episode.api_key())), "from gateway-1");
  }
  EXPECT_EQ(Post(b_, "/v1/chat/completions", Hello(), "unknown").status, 401);
}

// The other gateway is paused and out of the registry, and goes on soon.
TEST_F(FencingTest, ARestartTakesTheEpisodesOfItsOwnRoleAlone) {
  const auto own = a_.gateway->OpenEpisode({}).value(), others = b_.gateway->OpenEpisode({}).value();
  SetPresent({"gateway"});
  Restart(a_);
  EXPECT_EQ(Stored(own).gateway_token(), 2);
  EXPECT_EQ(Stored(others).gateway_token(), 1) << "nobody asked for it";
  EXPECT_EQ(TextOf(Post(a_, ChatOf(others), Hello(), others.api_key())), "from gateway");
  EXPECT_EQ(Stored(others).gateway_token(), 2);
}

TEST_F(FencingTest, EpisodesOfAGatewayThatIsGoneForGoodAreTaken) {
  const auto own = a_.gateway->OpenEpisode({}).value(), others = b_.gateway->OpenEpisode({}).value();
  ASSERT_TRUE(a_.gateway->Recover("gateway-1").ok());
  EXPECT_EQ(Stored(own).gateway_token(), 1);
  EXPECT_EQ(Stored(others).gateway_token(), 2);
}

TEST_F(FencingTest, AWallClockThatIsSetMovesAndEndsNoEpisode) {
  v1::EpisodeOpenRequest open;
  open.mutable_limits()->set_deadline_s(3600);
  const auto stays = a_.gateway->OpenEpisode(open).value(), moves = a_.gateway->OpenEpisode(open).value();
  for (const auto jump : {std::chrono::hours(24), -std::chrono::hours(24)}) {
    wall_.SetWall(jump);
    for (Place* place : {&a_, &b_})
      EXPECT_EQ(TextOf(Post(*place, ChatOf(stays), Hello(), stays.api_key())), "from gateway");
    if (Stored(moves).gateway_token() == 1) TakeOver(moves);
    for (Place* place : {&a_, &b_}) place->gateway->Tick();
    (void)Post(a_, ChatOf(moves), Hello(), moves.api_key());  // it is told the first time
    for (Place* place : {&a_, &b_})
      EXPECT_EQ(TextOf(Post(*place, ChatOf(moves), Hello(), moves.api_key())), "from gateway-1");
  }
  EXPECT_EQ(spied_->takes, 1);
  for (const auto& episode : {stays, moves}) EXPECT_EQ(Stored(episode).state(), v1::EPISODE_OPEN);
}

// Two threads of a gateway take an episode at the same time; one of them had read it before.
TEST_F(FencingTest, AnEpisodeIsTakenOnce) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  v1::ListEpisodesRequest list;
  list.set_purpose(v1::PURPOSE_TRAIN);
  list.set_last_group(-1);
  const v1::ListEpisodesResponse page = pool_->ListEpisodes(list).value();
  ASSERT_EQ(page.episodes_size(), 1);
  TakeOver(episode);
  ASSERT_TRUE(Reward(b_, episode, 0.5).ok());
  spied_->page = page;
  ASSERT_TRUE(b_.gateway->Recover("gateway").ok());
  spied_->page.reset();
  EXPECT_EQ(spied_->takes, 1);
  EXPECT_TRUE(b_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FINISHED)).ok());
  EXPECT_EQ(Stored(episode).reward(), 0.5);
}

TEST_F(FencingTest, AHealthyGatewayAsksThePoolForRejectionsAlone) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  const int before = spied_->gets;
  EXPECT_EQ(TextOf(Post(a_, ChatOf(episode), Hello(), episode.api_key())), "from gateway");
  ASSERT_TRUE(Reward(a_, episode, 1).ok());
  EXPECT_EQ(HttpStatusOf(a_.gateway->RewardEpisode(episode.episode_id(), "another", 1, {})), 403);
  ASSERT_TRUE(a_.gateway->EndEpisode(EndOf(episode, v1::EPISODE_FINISHED)).ok());
  EXPECT_EQ(spied_->gets, before);
}

// Whoever sends garbage loads no pool.
TEST_F(FencingTest, ARequestThatCannotBeReadAsksThePoolNothing) {
  const auto episode = a_.gateway->OpenEpisode({}).value();
  const int before = spied_->gets;
  for (const object& body : {object{{"messages", "none"}}, object{{"model", "m"}}}) {
    EXPECT_EQ(Post(a_, ChatOf(episode), body, episode.api_key()).status, 400);
  }
  EXPECT_EQ(Post(a_, ChatOf(episode), "no object", episode.api_key()).status, 400);
  EXPECT_EQ(HttpStatusOf(Reward(a_, episode, 1e9)), 400);
  EXPECT_EQ(HttpStatusOf(a_.gateway->RewardEpisode(episode.episode_id(), episode.api_key(), 1, {{"", 1}})), 400);
  EXPECT_EQ(spied_->gets, before);
  v1::EpisodeRewardRequest of_call;
  of_call.set_episode_id(episode.episode_id());
  of_call.set_api_key(episode.api_key());
  of_call.add_call_rewards()->set_turn(0);
  EXPECT_EQ(HttpStatusOf(a_.gateway->RewardEpisode(of_call)), 404);
  EXPECT_EQ(spied_->gets, before + 1) << "another gateway may know the call";
}

}  // namespace
}  // namespace ingot::gateway
