// Calls whose engine goes away in the middle: they continue on another engine, as far as possible with the ids that
// they have.
#include <gtest/gtest.h>

#include "gateway/fakes.h"
#include "gateway/prompt/generation.h"

namespace ingot::gateway::resumed_calls_test {
namespace {

using base::json::array;
using base::json::object;

array Question() { return {Msg("user", "hi")}; }

Script Whole(const std::string& text) {
  Script script;
  script.text = text;
  return script;
}

// The ids of the text, and then the engine is gone.
Script Cut(const std::string& text) {
  Script script = Whole(text);
  script.end_of_turn = false;
  script.error = absl::UnavailableError("the engine is gone");
  return script;
}

std::vector<int32_t> Encode(const std::string& text) { return TestTokenizer()->Encode(text, true); }

std::vector<int32_t> IdsOf(const auto& field) { return {field.begin(), field.end()}; }

// Nothing has been delivered: the next engine verifies all ids, under its own version.
TEST(ResumedCall, GivesTheNextEngineItsIdsAsDrafts) {
  std::atomic<int> asked{0};
  World world([&](const auto&) { return ++asked == 1 ? Cut("half an an") : Whole("half an answer"); });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("content"), "half an answer");
  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].first_index(), 0);
  EXPECT_EQ(IdsOf(requests[1].draft_ids()), Encode("half an an"));
  v1::GenerateRequest again = requests[1];
  again.clear_draft_ids();
  EXPECT_EQ(again.SerializeAsString(), requests[0].SerializeAsString()) << "the same seed and limits";
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("half an answer<|im_end|>"));
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_STOP);
  EXPECT_NE(world.gateway().MetricsText().find("ingot_gateway_resumed_calls_total 1"), std::string::npos);
}

// The version moved, and the ids are other ones from some place on: the client gets the new answer alone.
TEST(ResumedCall, TakesTheNextEnginesIdsWhereTheyDiffer) {
  std::atomic<int> asked{0};
  World world([&](const auto&) { return ++asked == 1 ? Cut("half an old an") : Whole("half a new answer"); });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("content"), "half a new answer");
  EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("half a new answer<|im_end|>"));
}

// A stream may already be with the client, so all its ids stay.
TEST(ResumedCall, AStreamGoesOnBehindItsIds) {
  std::atomic<int> asked{0};
  World world(
      [&](const auto&) { return ++asked <= 2 ? Cut(asked == 1 ? "half" : "half an an") : Whole("half an answer"); });
  const auto episode = world.Open();
  object body = Body(Question());
  body["stream"] = true;
  const auto outcome = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  std::string text;
  for (const base::json::value& event : outcome.events) {
    const base::json::value* content = base::Find(event.at("choices").at(0).at("delta"), "content");
    if (content != nullptr) text += content->as_string();
  }
  EXPECT_EQ(text, "half an answer");
  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].first_index(), 4);
  EXPECT_EQ(requests[2].first_index(), 10);
  EXPECT_EQ(requests[2].draft_ids_size(), 0);
  ASSERT_EQ(requests[2].first_logprobs_size(), 10) << "so that the halt on repetition counts them";
  EXPECT_EQ(requests[2].first_logprobs(9), world.pool.segment(world.pool.calls()[0].sampled_keys(0)).logprobs(9));
  EXPECT_EQ(requests[2].prompt_ids_size(), requests[0].prompt_ids_size() + 10);
  EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("half an answer<|im_end|>"));
}

TEST(ResumedCall, EndsIfNoEngineGetsFurther) {
  for (const bool stream : {false, true}) {
    World world([](const auto&) { return Cut("half"); });
    const auto episode = world.Open();
    object body = Body(Question());
    body["stream"] = stream;
    EXPECT_FALSE(world.Chat(episode.api_key(), body).status.ok());
    EXPECT_EQ(world.engine->requests().size(), 2u);
    ASSERT_EQ(world.pool.calls().size(), 1u);
    EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_ERROR);
    EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("half"));
  }
}

// While the only engine restarts, calls that it had and calls that come wait, and the client sees one answer.
TEST(ResumedCall, WaitsForAnEngine) {
  for (const bool stream : {false, true}) {
    std::atomic<int> asked{0};
    World world([&](const auto&) {
      const int now = ++asked;
      return now == 1 ? Cut("half an an") : now <= 3 ? Cut("") : Whole("half an answer");
    });
    world.options.engine_wait_s = 30;
    const auto episode = world.Open();
    RunningClock running(world.clock);
    object body = Body(Question());
    body["stream"] = stream;
    EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    EXPECT_EQ(world.engine->requests().size(), 4u);
    ASSERT_EQ(world.pool.calls().size(), 1u);
    EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("half an answer<|im_end|>"));
    EXPECT_NE(world.gateway().MetricsText().find("ingot_gateway_waited_calls_total 1"), std::string::npos);
  }
}

TEST(ResumedCall, WaitsNoLongerThanAllowed) {
  World world([](const auto&) { return Cut(""); });
  world.options.engine_wait_s = 1.2;
  const auto episode = world.Open();
  RunningClock running(world.clock);
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_GE(world.engine->requests().size(), 2u);
  EXPECT_LE(world.engine->requests().size(), 4u) << "at 0, 0.5, 1.0, and 1.5 s";
}

TEST(ResumedCall, OtherErrorsEndIt) {
  World world([](const auto&) {
    Script script = Cut("half");
    script.error = absl::InternalError("NaN");
    return script;
  });
  const auto episode = world.Open();
  EXPECT_FALSE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_EQ(world.engine->requests().size(), 1u);
}

TEST(ResumedCall, WorksFromInsideTheEnginesCallback) {
  std::atomic<int> asked{0};
  World world([&](const auto&) { return ++asked == 1 ? Cut("half an an") : Whole("half an answer"); });
  world.engine->inline_chunks = true;
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("content"), "half an answer");
}

v1::GenerateChunk Chunk(int first, int count) {
  v1::GenerateChunk chunk;
  for (int id = first; id < first + count; ++id) {
    chunk.add_token_ids(id);
    chunk.add_logprobs(-1);
  }
  chunk.add_versions()->set_count(count);
  return chunk;
}

// The second engine's clock starts when it was asked, not when the first one was.
TEST(ResumedCall, CountsTheSecondEnginesTimesFromItsOwnArrival) {
  Generation generation;
  generation.times.set_queued_unix_ns(1000);
  ASSERT_TRUE(generation.Append(Chunk(0, 3), 1100).ok());
  generation.AskAgain(/*kept=*/2, 5000);
  EXPECT_EQ(generation.size(), 3) << "until the next engine answers";
  v1::GenerateChunk last = Chunk(7, 1);
  last.set_finish(v1::FINISH_STOP);
  last.mutable_times()->set_queued_unix_ns(900'000);
  last.mutable_times()->set_first_token_unix_ns(900'300);
  last.mutable_times()->set_end_unix_ns(900'400);
  ASSERT_TRUE(generation.Append(last, 5500).ok());
  EXPECT_EQ(IdsOf(generation.segment.token_ids()), (std::vector<int32_t>{0, 1, 7}));
  EXPECT_EQ(generation.times.first_token_unix_ns(), 1100);
  EXPECT_EQ(generation.times.end_unix_ns(), 5400);
}

}  // namespace
}  // namespace ingot::gateway::resumed_calls_test
