// Snapshots of episodes, trunks at their forks, and episodes that go on from a trunk's calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gateway/api/api_error.h"
#include "gateway/fakes.h"
#include "gateway/gateway.h"

namespace ingot::gateway::snapshots_test {
namespace {

using base::json::array;
using base::json::object;
using ::testing::HasSubstr;

// Answers with the number of the assistant's turns before.
Script Count(const v1::GenerateRequest& request) {
  const std::vector<int32_t> ids(request.prompt_ids().begin(), request.prompt_ids().end());
  const std::string prompt = TestTokenizer()->Decode(ids, false);
  int turns = -1;
  for (size_t at = 0; (at = prompt.find("<|im_start|>assistant", at)) != std::string::npos; ++at) ++turns;
  Script script;
  script.text = "turn " + std::to_string(turns);
  return script;
}

v1::EpisodeOpenRequest OfRunner(const std::string& runner = "agents") {
  v1::EpisodeOpenRequest request;
  request.set_scaffold("solver");
  request.set_runner(runner);
  request.set_incarnation("1");
  request.set_can_fork(!runner.empty());
  return request;
}

class SnapshotsTest : public testing::Test {
 protected:
  SnapshotsTest() {
    // The first ticket is a trunk's; later ones are leaves of `trunk_`.
    world_.admission.change = [this](const v1::AdmitRequest& request, v1::Ticket& ticket) {
      asked_.push_back(request);
      if (fork_at_ > 0 && trunk_.empty()) ticket.set_fork_at(fork_at_);
      ticket.set_trunk_id(trunk_);
      ticket.set_oldest_group(4);
    };
  }

  v1::EpisodeOpenResponse OpenAs(const v1::EpisodeOpenRequest& request) {
    auto opened = world_.gateway().OpenEpisode(request);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : v1::EpisodeOpenResponse();
  }
  // Asks the next turn, and notes question and answer.
  World::Outcome Turn(const v1::EpisodeOpenResponse& episode, array& messages, const std::string& question) {
    messages.push_back(Msg("user", question));
    World::Outcome outcome = world_.Chat(episode.api_key(), Body(messages));
    if (outcome.status.ok()) messages.push_back(outcome.message());
    return outcome;
  }
  v1::NextSnapshotResponse AwaitAsk(const std::string& runner = "agents") {
    v1::NextSnapshotRequest request;
    request.set_runner(runner);
    for (int i = 0; i < 20'000; ++i) {
      const auto ask = world_.gateway().NextSnapshot(request);
      EXPECT_TRUE(ask.ok()) << ask.status();
      if (!ask.ok() || !ask->episode_id().empty()) return ask.value_or(v1::NextSnapshotResponse());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no snapshot was asked for";
    return {};
  }
  absl::Status Taken(const std::string& id, const std::string& error = "") {
    v1::SnapshotTakenRequest taken;
    taken.set_snapshot_id(id);
    taken.set_error(error);
    return world_.gateway().SnapshotTaken(taken);
  }
  absl::StatusOr<v1::EpisodeSnapshotResponse> Snapshot(const v1::EpisodeOpenResponse& episode) {
    v1::EpisodeSnapshotRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    return world_.gateway().SnapshotEpisode(request);
  }
  std::vector<int32_t> PathOf(const v1::Call& call) const {
    std::vector<int32_t> path = world_.pool.PromptOf(call);
    for (const int32_t id : world_.pool.Ids(call.sampled_keys())) path.push_back(id);
    return path;
  }
  std::vector<int32_t> LastPrompt() const {
    const auto request = world_.engine->requests().back();
    return {request.prompt_ids().begin(), request.prompt_ids().end()};
  }

  int fork_at_ = 0;
  std::string trunk_;
  std::vector<v1::AdmitRequest> asked_;
  World world_{Count};
};

TEST_F(SnapshotsTest, ATrunkStopsAtItsForkAndALeafContinuesItsSampledIds) {
  fork_at_ = 2;
  const auto trunk = OpenAs(OfRunner());
  EXPECT_EQ(trunk.fork_at(), 2);
  EXPECT_EQ(trunk.oldest_group(), 4);
  EXPECT_EQ(asked_[0].runner(), "agents");
  array messages;
  for (const char* question : {"a", "b"}) ASSERT_TRUE(Turn(trunk, messages, question).status.ok());
  const array until_fork = messages;
  // The third call waits. Nothing is asked of the runner before it comes.
  EXPECT_TRUE(world_.gateway().NextSnapshot({})->episode_id().empty());
  auto waiting = std::async(std::launch::async, [&] { return Turn(trunk, messages, "c"); });
  const auto ask = AwaitAsk();
  EXPECT_EQ(ask.episode_id(), trunk.episode_id());
  EXPECT_EQ(ask.snapshot_id(), trunk.episode_id() + ".2");
  EXPECT_TRUE(ask.ends());
  EXPECT_EQ(world_.engine->requests().size(), 2u);
  ASSERT_TRUE(world_.End(trunk, v1::EPISODE_FORKED, "forked").ok());
  EXPECT_EQ(HttpStatusOf(waiting.get().status), 410);
  ASSERT_EQ(world_.admission.ended().size(), 1u);
  EXPECT_EQ(world_.admission.ended()[0].state(), v1::EPISODE_FORKED);
  EXPECT_EQ(world_.admission.ended()[0].episode_id(), trunk.episode_id());
  EXPECT_EQ(world_.admission.ended()[0].runner(), "agents");
  EXPECT_EQ(world_.admission.ended()[0].scaffold(), "solver");

  trunk_ = trunk.episode_id();
  for (const bool restarted : {false, true}) {
    const auto leaf = OpenAs(OfRunner());
    const v1::Call fork = world_.pool.calls()[1];
    EXPECT_EQ(leaf.fork().episode_id(), trunk.episode_id());
    EXPECT_EQ(leaf.fork().call_id(), fork.call_id());
    EXPECT_EQ(leaf.fork().snapshot_id(), trunk.episode_id() + ".2");
    EXPECT_EQ(leaf.fork_at(), 0);
    if (restarted) {
      ASSERT_TRUE(world_.Restart().ok());
    }
    array own = until_fork;
    ASSERT_TRUE(Turn(leaf, own, "c").status.ok());
    const v1::Call first = world_.pool.calls().back();
    EXPECT_EQ(first.episode_id(), leaf.episode_id());
    EXPECT_EQ(first.sequence(), 2) << "the trunk's calls count";
    EXPECT_EQ(first.parent_call_id(), fork.call_id());
    EXPECT_FALSE(first.has_continued_segments()) << "its episode does not hold the parent call";
    EXPECT_EQ(first.fork_cause(), "");
    EXPECT_EQ(world_.pool.PromptOf(first), LastPrompt());
    const std::vector<int32_t> before = PathOf(fork);
    ASSERT_GT(LastPrompt().size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), LastPrompt().begin()));
    if (restarted) {
      ASSERT_TRUE(world_.Restart().ok());
    }
    ASSERT_TRUE(Turn(leaf, own, "d").status.ok());
    const v1::Call second = world_.pool.calls().back();
    EXPECT_EQ(second.parent_call_id(), first.call_id());
    EXPECT_EQ(second.continued_segments(), 1);
    EXPECT_EQ(second.sequence(), 3);
    EXPECT_EQ(world_.pool.PromptOf(second), LastPrompt());
    EXPECT_EQ(own.back().at("content").as_string(), "turn 3");
    ASSERT_TRUE(world_.Reward(leaf, 1).ok());
    ASSERT_TRUE(world_.End(leaf, v1::EPISODE_FINISHED).ok());
    EXPECT_EQ(world_.pool.episode(leaf.episode_id()).fork().episode_id(), trunk.episode_id());
  }
}

TEST_F(SnapshotsTest, ATrunkStopsAtItsForkUnderALaterGatewayToo) {
  fork_at_ = 1;
  const auto trunk = OpenAs(OfRunner());
  array messages;
  ASSERT_TRUE(Turn(trunk, messages, "a").status.ok());
  ASSERT_TRUE(world_.Restart().ok());
  auto waiting = std::async(std::launch::async, [&] { return Turn(trunk, messages, "b"); });
  EXPECT_EQ(AwaitAsk().snapshot_id(), trunk.episode_id() + ".1");
  // The ask was lost on its way: it comes again.
  EXPECT_TRUE(world_.gateway().NextSnapshot({})->episode_id().empty());
  world_.clock.Advance(std::chrono::seconds(31));
  EXPECT_EQ(AwaitAsk().snapshot_id(), trunk.episode_id() + ".1");
  ASSERT_TRUE(world_.End(trunk, v1::EPISODE_FORKED).ok());
  waiting.wait();
  world_.clock.Advance(std::chrono::seconds(31));
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  EXPECT_TRUE(world_.gateway().NextSnapshot(next)->episode_id().empty()) << "the episode has ended";
}

TEST_F(SnapshotsTest, ASnapshotIsTakenBetweenTwoCalls) {
  const auto episode = OpenAs(OfRunner());
  array messages;
  ASSERT_TRUE(Turn(episode, messages, "a").status.ok());
  // A call in flight is awaited; one that comes meanwhile waits.
  world_.pool.CloseGate(true);
  auto in_flight = std::async(std::launch::async, [&, mine = messages]() mutable { return Turn(episode, mine, "b"); });
  while (world_.engine->requests().size() < 2) std::this_thread::yield();
  auto snapshot = std::async(std::launch::async, [&] { return Snapshot(episode); });
  v1::NextSnapshotRequest next;
  next.set_runner("agents");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(world_.gateway().NextSnapshot(next)->episode_id().empty());
  world_.pool.CloseGate(false);
  EXPECT_TRUE(in_flight.get().status.ok());
  const auto ask = AwaitAsk();
  EXPECT_FALSE(ask.ends());
  auto later = std::async(std::launch::async, [&, mine = messages]() mutable { return Turn(episode, mine, "c"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(world_.engine->requests().size(), 2u);
  ASSERT_TRUE(Taken(ask.snapshot_id()).ok());
  const auto taken = snapshot.get();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->snapshot().snapshot_id(), episode.episode_id() + ".2");
  EXPECT_EQ(taken->snapshot().call_id(), world_.pool.calls()[1].call_id());
  EXPECT_TRUE(later.get().status.ok());
  EXPECT_EQ(Taken(ask.snapshot_id()).code(), absl::StatusCode::kNotFound);
}

TEST_F(SnapshotsTest, AnEpisodeFromASnapshotIsAnotherSampleOfItsGroup) {
  const auto episode = OpenAs(OfRunner());
  array messages;
  ASSERT_TRUE(Turn(episode, messages, "a").status.ok());
  array other = messages;
  ASSERT_TRUE(Turn(episode, messages, "b").status.ok());  // behind the snapshot's place
  v1::EpisodeOpenRequest open = OfRunner();
  open.set_from_snapshot(episode.episode_id() + ".1");
  const auto forked = OpenAs(open);
  EXPECT_EQ(asked_.back().sample_of(), 7);
  EXPECT_EQ(forked.fork().call_id(), world_.pool.calls()[0].call_id());
  ASSERT_TRUE(Turn(forked, other, "b").status.ok());
  EXPECT_EQ(world_.pool.calls().back().parent_call_id(), world_.pool.calls()[0].call_id());
  EXPECT_EQ(world_.pool.calls().back().sequence(), 1);
  // A fork of the fork goes on from the calls of both.
  open.set_from_snapshot(forked.episode_id() + ".2");
  const auto again = OpenAs(open);
  array third = other;
  ASSERT_TRUE(Turn(again, third, "c").status.ok());
  EXPECT_EQ(world_.pool.calls().back().sequence(), 2);
  EXPECT_EQ(world_.pool.PromptOf(world_.pool.calls().back()), LastPrompt());
  EXPECT_EQ(world_.pool.calls().back().parent_call_id(), world_.pool.calls()[2].call_id());
}

TEST_F(SnapshotsTest, ARunnerIsNotAskedForFilesThatNobodyReadsAnyMore) {
  const auto episode = OpenAs(OfRunner());
  array messages;
  ASSERT_TRUE(Turn(episode, messages, "a").status.ok());
  v1::EpisodeOpenRequest open = OfRunner();
  open.set_from_snapshot(episode.episode_id() + ".1");
  const auto forked = OpenAs(open);
  const auto read = [&] {
    return world_.gateway().ReadSnapshotFiles({.api_key = forked.api_key(), .episode = ""}, [] {});
  };
  auto left = read();
  ASSERT_TRUE(left.ok()) << left.status();
  left->reset();
  const auto stays = read();
  ASSERT_TRUE(stays.ok()) << stays.status();
  for (int i = 0; i < 2; ++i) {  // one ask more than there are readers
    v1::NextSnapshotRequest request;
    request.set_runner("agents");
    const auto ask = world_.gateway().NextSnapshot(request);
    ASSERT_TRUE(ask.ok()) << ask.status();
    EXPECT_EQ(ask->transfer_id(), i == 0 ? (*stays)->id() : "");
  }
}

TEST_F(SnapshotsTest, RejectionsSayWhy) {
  const auto elsewhere = OpenAs(OfRunner(""));
  const auto rejected = Snapshot(elsewhere);
  EXPECT_EQ(HttpStatusOf(rejected.status()), 409);
  EXPECT_THAT(std::string(rejected.status().message()), HasSubstr("was started elsewhere"));
  const auto episode = OpenAs(OfRunner());
  v1::EpisodeOpenResponse foreign = episode;
  foreign.set_api_key("another");
  EXPECT_EQ(HttpStatusOf(Snapshot(foreign).status()), 403);
  EXPECT_EQ(HttpStatusOf(world_.End(episode, v1::EPISODE_FORKED)), 400);
  // The runner's error reaches the client.
  auto snapshot = std::async(std::launch::async, [&] { return Snapshot(episode); });
  ASSERT_TRUE(Taken(AwaitAsk().snapshot_id(), "the disk is full").ok());
  const absl::Status failed = snapshot.get().status();
  EXPECT_EQ(HttpStatusOf(failed), 409);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("the disk is full"));
  // So does the end of the episode, and calls of an episode without a snapshot go on.
  snapshot = std::async(std::launch::async, [&] { return Snapshot(episode); });
  AwaitAsk();
  ASSERT_TRUE(world_.End(episode, v1::EPISODE_FAILED).ok());
  EXPECT_EQ(HttpStatusOf(snapshot.get().status()), 409);
  EXPECT_EQ(HttpStatusOf(Snapshot(episode).status()), 410);

  v1::EpisodeOpenRequest open = OfRunner();
  for (const auto& [id, http] : {std::pair("nothing", 400), {"unknown.1", 404}, {".1", 400}}) {
    open.set_from_snapshot(id);
    EXPECT_EQ(HttpStatusOf(world_.gateway().OpenEpisode(open).status()), http) << id;
  }
  open.set_from_snapshot(elsewhere.episode_id() + ".0");
  const absl::Status of_none = world_.gateway().OpenEpisode(open).status();
  EXPECT_EQ(HttpStatusOf(of_none), 404);
  EXPECT_THAT(std::string(of_none.message()), HasSubstr("has no snapshots"));
  open.set_from_snapshot(episode.episode_id() + ".3");
  EXPECT_EQ(HttpStatusOf(world_.gateway().OpenEpisode(open).status()), 404) << "it has made no call";
  open.set_from_snapshot(episode.episode_id() + ".0");
  open.set_group("mine");
  EXPECT_EQ(HttpStatusOf(world_.gateway().OpenEpisode(open).status()), 400);
  v1::EpisodeOpenRequest nameless = OfRunner("");
  nameless.set_can_fork(true);
  EXPECT_EQ(HttpStatusOf(world_.gateway().OpenEpisode(nameless).status()), 400);
}

TEST_F(SnapshotsTest, ALeafWhoseTrunkCannotBeReadGivesItsPlaceBack) {
  trunk_ = "gone";
  EXPECT_TRUE(absl::IsUnavailable(world_.gateway().OpenEpisode(OfRunner()).status()));
  ASSERT_EQ(world_.admission.ended().size(), 1u);
  EXPECT_EQ(world_.admission.ended()[0].state(), v1::EPISODE_FENCED);
}

TEST_F(SnapshotsTest, AWaitingCallThatItsClientLeavesHoldsNothingUp) {
  fork_at_ = 1;
  const auto trunk = OpenAs(OfRunner());
  array messages;
  ASSERT_TRUE(Turn(trunk, messages, "a").status.ok());
  messages.push_back(Msg("user", "b"));
  const auto answer = world_.StartChat(trunk.api_key(), Body(messages), [] {});
  AwaitAsk();
  answer->Abort(absl::CancelledError("the client disconnected"));
  EXPECT_TRUE(answer->TakeOutput().done);
  EXPECT_EQ(world_.gateway().Status().active_calls(), 0);
  EXPECT_TRUE(world_.End(trunk, v1::EPISODE_FORKED).ok());
}

}  // namespace
}  // namespace ingot::gateway::snapshots_test
