// Many episodes, calls, aborts and ends at once: for the thread sanitizer, and for what must hold whatever the order.
#include <gtest/gtest.h>

#include <random>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

Script Respond(const v1::GenerateRequest& request) {
  Script script;
  script.text = "answer " + std::to_string(request.sampling().seed() % 5);
  script.chunk = 1 + request.prompt_ids_size() % 3;
  if (request.sampling().seed() % 11 == 0) script.error = absl::UnavailableError("scripted");
  return script;
}

TEST(Hammer, ConcurrentEpisodesStayWholeWhateverIsAborted) {
  World world(Respond);
  world.options.worker_threads = 3;
  constexpr int kThreads = 6, kEpisodes = 12;
  world.gateway();
  std::atomic<bool> ticking{true};
  std::thread ticker([&] {
    while (ticking) {
      world.gateway().Tick();
      world.gateway().MetricsText();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int e = 0; e < kEpisodes; ++e) {
        const auto episode = world.Open();
        base::json::array messages{Msg("system", "s"), Msg("user", "q")};
        std::vector<std::shared_ptr<Answer>> loose;
        for (int turn = 0; turn < 4; ++turn) {
          base::json::object body = Body(messages);
          body["stream"] = random() % 2 == 0;
          // One that is abandoned at some moment, beside one that is not.
          auto call = world.StartChat(episode.api_key(), body, [] {});
          if (random() % 2) call->TakeOutput();
          if (random() % 2) call->Abort(absl::CancelledError("gone"));
          loose.push_back(std::move(call));
          const auto outcome = world.Chat(episode.api_key(), body);
          if (!outcome.status.ok() || body["stream"].as_bool()) continue;
          messages.push_back(outcome.message());
          messages.push_back(Msg("user", "next"));
        }
        EXPECT_TRUE(world.Reward(episode, 1).ok());
        std::thread twice([&] { EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok()); });
        EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
        twice.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ticking = false;
  ticker.join();

  const v1::GatewayStatusResponse status = world.gateway().Status();
  EXPECT_EQ(status.open_episodes(), 0);
  EXPECT_EQ(status.active_calls(), 0);
  EXPECT_EQ(status.calls(), kThreads * kEpisodes * 8);
  EXPECT_EQ(world.pool.ends, kThreads * kEpisodes);
  EXPECT_EQ(world.admission.ended().size(), size_t{kThreads * kEpisodes});
  // The record has the prompt that the engine got.
  std::map<std::string, std::vector<int32_t>> asked;
  for (const v1::GenerateRequest& request : world.engine->requests()) {
    const auto end = request.prompt_ids().end() - request.first_index();  // without ids of a lost engine
    asked[request.request_id()] = {request.prompt_ids().begin(), end};
  }
  std::set<std::string> seen;
  for (const v1::Call& call : world.pool.calls()) {
    EXPECT_TRUE(seen.insert(call.call_id()).second);
    EXPECT_EQ(world.pool.PromptOf(call), asked.at(call.call_id()));
  }
}

}  // namespace
}  // namespace ingot::gateway
