// Answers whose versions the engine confirms at the end.
#include <gtest/gtest.h>

#include "gateway/fakes.h"
#include "gateway/prompt/generation.h"

namespace ingot::gateway {
namespace {

using base::json::object;

Script Provisional(int64_t answer_version) {
  Script script;
  script.text = "some text";
  script.answer_version = answer_version;
  return script;
}

v1::GenerateChunk Chunk(int ids, bool provisional) {
  v1::GenerateChunk chunk;
  chunk.set_provisional(provisional);
  for (int i = 0; i < ids; ++i) {
    chunk.add_token_ids(i);
    chunk.add_logprobs(-1);
  }
  v1::VersionRun* run = chunk.add_versions();
  run->set_version(1);
  run->set_count(ids);
  return chunk;
}

v1::GenerateChunk Last(int ids, std::vector<std::pair<int64_t, int>> runs) {
  v1::GenerateChunk last = Chunk(ids, true);
  last.set_finish(v1::FINISH_STOP);
  for (const auto& [version, count] : runs) {
    v1::VersionRun* run = last.add_answer_versions();
    run->set_version(version);
    run->set_count(count);
  }
  return last;
}

TEST(ProvisionalVersions, TheLastChunksVersionsReplaceThoseOfTheChunks) {
  Generation generation;
  ASSERT_TRUE(generation.Append(Chunk(3, true), 1).ok());
  EXPECT_TRUE(generation.provisional);
  ASSERT_TRUE(generation.Append(Last(2, {{4, 2}, {5, 3}}), 2).ok());
  EXPECT_FALSE(generation.provisional);
  ASSERT_EQ(generation.segment.versions_size(), 2);
  EXPECT_EQ(generation.segment.versions(0).version(), 4);
  EXPECT_EQ(generation.segment.versions(1).version(), 5);
  EXPECT_EQ(generation.segment.versions(1).count(), 3);
}

TEST(ProvisionalVersions, RejectsAnAnswerThatTheyDoNotCover) {
  for (const auto& runs :
       std::vector<std::vector<std::pair<int64_t, int>>>{{}, {{4, 4}}, {{4, 6}}, {{4, 5}, {5, 0}}, {{4, 6}, {5, -1}}}) {
    Generation generation;
    ASSERT_TRUE(generation.Append(Chunk(3, true), 1).ok());
    EXPECT_TRUE(absl::IsInternal(generation.Append(Last(2, runs), 2)));
    EXPECT_TRUE(generation.provisional);
  }
}

TEST(ProvisionalVersions, RejectsThemBeforeTheEnd) {
  Generation generation;
  v1::GenerateChunk early = Last(2, {{4, 2}});
  early.set_finish(v1::FINISH_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInternal(generation.Append(early, 1)));
}

TEST(ProvisionalVersions, AreRecordedAsConfirmed) {
  World world([](const auto&) { return Provisional(7); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "hi")})).status.ok());
  ASSERT_EQ(world.pool.calls().size(), 1u);
  const v1::Call call = world.pool.calls()[0];
  ASSERT_EQ(call.sampled_keys_size(), 1);
  const v1::Segment segment = world.pool.segment(call.sampled_keys(0));
  ASSERT_EQ(segment.versions_size(), 1);
  EXPECT_EQ(segment.versions(0).version(), 7);
}

// A server that restarts begins the answer again, as long as its client has received nothing.
TEST(ProvisionalVersions, BeginAgainAfterARestart) {
  std::atomic<int> asked{0};
  World world([&](const auto&) {
    Script script = Provisional(++asked == 1 ? -1 : 9);
    if (asked == 1) script.error = absl::UnavailableError("the server's process has exited");
    return script;
  });
  world.options.engine_wait_s = 30;
  const auto episode = world.Open();
  RunningClock running(world.clock);
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "hi")})).status.ok());
  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].SerializeAsString(), requests[0].SerializeAsString());
  ASSERT_EQ(world.pool.calls().size(), 1u);
  const v1::Segment segment = world.pool.segment(world.pool.calls()[0].sampled_keys(0));
  ASSERT_EQ(segment.versions_size(), 1);
  EXPECT_EQ(segment.versions(0).version(), 9);
}

TEST(ProvisionalVersions, AreNeverRecordedUnconfirmed) {
  World world([](const auto& request) {
    Script script = Provisional(-1);
    // An answer that breaks off, one that ends without its versions, and one that the client abandons.
    if (request.sampling().seed() % 2 == 0) script.error = absl::UnavailableError("gone");
    return script;
  });
  const auto episode = world.Open();
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(world.Chat(episode.api_key(), Body({Msg("user", "hi " + std::to_string(i))})).status.ok());
  }
  EXPECT_TRUE(world.pool.calls().empty());
}

}  // namespace
}  // namespace ingot::gateway
