#include "gateway/service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "gateway/fakes.h"
#include "gateway/grpc_client.h"
#include "proto/gateway.grpc.pb.h"

namespace ingot::gateway {
namespace {

using base::json::object;

struct Service : World {
  explicit Service(ScriptedEngine::Author author) : World(std::move(author)) {
    service = NewGatewayService(gateway());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
    stub = v1::Gateway::NewStub(channel);
    client = NewGrpcClient(channel, std::chrono::seconds(20));
  }
  ~Service() {
    engine->Release();
    server->Shutdown();
  }
  grpc::Status Chat(const std::string& key, const object& body, std::vector<std::string>& replies) {
    grpc::ClientContext context;
    v1::ChatRequest request;
    request.set_api_key(key);
    request.set_request_json(base::PrintJson(body));
    const auto reader = stub->ChatCompletions(&context, request);
    v1::ChatResponse response;
    while (reader->Read(&response)) replies.push_back(response.response_json());
    const grpc::Status status = reader->Finish();
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto http = trailers.find("http-status");
    http_status = http == trailers.end() ? 200 : std::stoi(std::string(http->second.data(), http->second.size()));
    return status;
  }
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::Gateway::Stub> stub;
  std::unique_ptr<Client> client;
  int http_status = 0;
};

Script Say(const std::string& text, bool hold = false) {
  Script script;
  script.text = text;
  script.hold = hold;
  return script;
}

TEST(GatewayService, ListsAndEndsEpisodesWithoutACallAsItsObjectDoes) {
  Service world([](const auto&) { return Say("hello"); });
  const auto one = world.Open(), two = world.Open();
  world.clock.Advance(std::chrono::seconds(161));
  const auto status = world.client->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->uncalled_episodes(), 2);
  EXPECT_EQ(status->oldest_uncalled_ms(), 161'000);
  v1::EndUncalledRequest request;
  request.set_episode_id(one.episode_id());
  EXPECT_EQ(world.client->EndUncalled(request)->ended(), 1);
  for (const auto& answer : {world.client->EndUncalled(request), world.gateway().EndUncalled(request)}) {
    EXPECT_EQ(HttpStatusOf(answer.status()), 410) << answer.status();
  }
  request.set_episode_id("unknown");
  EXPECT_TRUE(absl::IsNotFound(world.client->EndUncalled(request).status()));
  std::vector<std::string> replies;
  ASSERT_TRUE(world.Chat(two.api_key(), Body({Msg("user", "hi")}), replies).ok());
  request.set_episode_id(two.episode_id());
  for (const auto& answer : {world.client->EndUncalled(request), world.gateway().EndUncalled(request)}) {
    EXPECT_EQ(HttpStatusOf(answer.status()), 409) << answer.status();
  }
  request.clear_episode_id();
  EXPECT_EQ(world.client->EndUncalled(request)->ended(), 0);
}

TEST(GatewayService, ServesAnEpisodeOverGrpc) {
  Service world([](const auto&) { return Say("hello"); });
  v1::EpisodeOpenResponse episode;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(world.stub->OpenEpisode(&context, {}, &episode).ok());
  }
  std::vector<std::string> replies;
  object body = Body({Msg("user", "hi")});
  ASSERT_TRUE(world.Chat(episode.api_key(), body, replies).ok());
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_NE(replies[0].find("\"content\":\"hello\""), std::string::npos);
  body["stream"] = true;
  replies.clear();
  ASSERT_TRUE(world.Chat(episode.api_key(), body, replies).ok());
  EXPECT_GE(replies.size(), 3u);
  EXPECT_NE(replies.back().find("\"finish_reason\":\"stop\""), std::string::npos);

  v1::ReadMessagesRequest read;
  read.set_episode_id(episode.episode_id());
  v1::ReadMessagesResponse messages;
  {
    grpc::ClientContext context;
    EXPECT_EQ(world.stub->ReadMessages(&context, read, &messages).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  read.set_api_key(episode.api_key());
  {
    grpc::ClientContext context;
    ASSERT_TRUE(world.stub->ReadMessages(&context, read, &messages).ok());
  }
  ASSERT_EQ(messages.messages_json_size(), 2);
  EXPECT_NE(messages.messages_json(0).find("\"content\":\"hello\""), std::string::npos);

  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(episode.episode_id());
  reward.set_api_key(episode.api_key());
  reward.set_reward(1);
  reward.add_call_rewards()->set_turn(0);
  reward.mutable_call_rewards(0)->set_reward(0.25);
  v1::EpisodeRewardResponse rewarded;
  grpc::ClientContext reward_context;
  ASSERT_TRUE(world.stub->RewardEpisode(&reward_context, reward, &rewarded).ok());
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode.episode_id());
  end.set_api_key(episode.api_key());
  end.set_state(v1::EPISODE_FINISHED);
  v1::EpisodeEndResponse ended;
  grpc::ClientContext end_context;
  ASSERT_TRUE(world.stub->EndEpisode(&end_context, end, &ended).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 1);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).call_rewards().at(world.pool.calls()[0].call_id()), 0.25);

  EXPECT_FALSE(world.Chat(episode.api_key(), body, replies).ok());
  EXPECT_EQ(world.http_status, 410);
  grpc::ClientContext status_context;
  v1::GatewayStatusResponse status;
  ASSERT_TRUE(world.stub->Status(&status_context, {}, &status).ok());
  EXPECT_EQ(status.calls(), 3);
}

// HTTP refuses the field; a runner sends it over gRPC.
TEST(GatewayService, ABadDefaultOutcomeIsRejectedAndCostsNoEpisode) {
  Service world([](const auto&) { return Say("hello"); });
  const auto episode = world.Open();
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode.episode_id());
  end.set_api_key(episode.api_key());
  end.set_state(v1::EPISODE_FINISHED);
  const auto post = [&] {
    v1::EpisodeEndResponse ended;
    grpc::ClientContext context;
    return world.stub->EndEpisode(&context, end, &ended);
  };
  using Change = std::function<void(v1::DefaultOutcome&)>;
  const std::pair<const char*, Change> cases[] = {
      {"reward", [](auto& outcome) { outcome.set_reward(std::nan("")); }},
      {"reward", [](auto& outcome) { outcome.set_reward(1e7); }},
      {"signals", [](auto& outcome) { (*outcome.mutable_signals())["speed"] = HUGE_VAL; }},
      {"signals", [](auto& outcome) { (*outcome.mutable_signals())[""] = 1; }},
      {"signals",
       [](auto& outcome) {
         for (int i = 0; i < 300; ++i) (*outcome.mutable_signals())[std::to_string(i)] = i;
       }},
      {"facts", [](auto& outcome) { (*outcome.mutable_facts())["seen"] = "no JSON"; }},
      {"facts",
       [](auto& outcome) {
         for (int i = 0; i < 100; ++i) (*outcome.mutable_facts())[std::to_string(i)] = "1";
       }},
  };
  for (const auto& [field, change] : cases) {
    change(*end.mutable_unless_rewarded());
    const grpc::Status rejected = post();
    EXPECT_EQ(rejected.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field << rejected.error_message();
    EXPECT_NE(rejected.error_message().find("unless_rewarded"), std::string::npos) << rejected.error_message();
    const absl::Status direct = world.gateway().EndEpisode(end).status();
    EXPECT_EQ(ErrorParamOf(direct), std::string("unless_rewarded.") + field) << direct;
    EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_OPEN) << field;
    end.clear_unless_rewarded();
  }
  end.mutable_unless_rewarded()->set_reward(0.5);
  EXPECT_TRUE(post().ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.5);
}

TEST(GatewayService, AnswersInEveryDialectTokenByToken) {
  Service world([](const auto&) { return Say("hello"); });
  const auto episode = world.Open();
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"stream":true})";
  const std::pair<const char*, std::string> cases[] = {
      {"chat.completions", chat},
      {"messages", chat},
      {"responses", R"({"input":"x","stream":true})"},
      {"completions", R"({"prompt":"x","stream":true})"},
      {"google.streamGenerateContent", R"({"contents":[{"parts":[{"text":"x"}]}]})"}};
  for (const auto& [dialect, body] : cases) {
    v1::DialectRequest request;
    request.set_dialect(dialect);
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.set_request_json(body);
    request.set_tokens(true);
    grpc::ClientContext context;
    const auto reader = world.stub->Answer(&context, request);
    v1::DialectEvent event;
    std::vector<int32_t> ids;
    std::string last;
    while (reader->Read(&event)) {
      EXPECT_EQ(event.token_ids_size(), event.logprobs_size());
      ids.insert(ids.end(), event.token_ids().begin(), event.token_ids().end());
      EXPECT_TRUE(base::ParseJson(event.data_json()).ok());
      last = event.event();
    }
    EXPECT_TRUE(reader->Finish().ok()) << dialect;
    EXPECT_EQ(ids, TestTokenizer()->Encode("hello<|im_end|>", true)) << dialect;
    if (dialect == std::string_view("messages")) {
      EXPECT_EQ(last, "message_stop");
    }
    if (dialect == std::string_view("responses")) {
      EXPECT_EQ(last, "response.completed");
    }
  }
  v1::DialectRequest unknown;
  unknown.set_dialect("telex");
  grpc::ClientContext context;
  v1::DialectEvent event;
  const auto reader = world.stub->Answer(&context, unknown);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(GatewayService, RejectsAsHttpDoes) {
  Service world([](const auto&) { return Say("hello"); });
  world.admission.places = 0;
  grpc::ClientContext context;
  v1::EpisodeOpenResponse episode;
  EXPECT_EQ(world.stub->OpenEpisode(&context, {}, &episode).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("retry-after"), 1u);
  std::vector<std::string> replies;
  EXPECT_EQ(world.Chat("unknown", Body({Msg("user", "hi")}), replies).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(GatewayService, RecordsACancelledStreamAsAborted) {
  Service world([](const auto&) { return Say("hello", true); });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["stream"] = true;
  v1::ChatRequest request;
  request.set_api_key(episode.api_key());
  request.set_request_json(base::PrintJson(body));
  grpc::ClientContext context;
  const auto reader = world.stub->ChatCompletions(&context, request);
  world.engine->WaitForHeld(1);
  v1::ChatResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  while (world.pool.calls().empty()) std::this_thread::yield();
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_ABORTED);
}

}  // namespace
}  // namespace ingot::gateway
